"""Keeps TensorFlow's start-up messages from the user's terminal.

TensorFlow reads its log level once, when it is loaded, so this module is
imported before anything that loads it. A level that the user has set stands.
"""

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
