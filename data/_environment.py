"""What TensorFlow reads from the environment, once, when it is loaded.

This module is imported before anything that loads it: no start-up messages on
the user's terminal, and oneDNN as in `tff_local_ams`, whichever of the two
packages comes first. What the user has set stands.
"""

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
