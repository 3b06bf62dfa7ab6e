"""What TensorFlow reads from the environment, once, when it is loaded.

So this module is imported before anything that loads it. What the user has set
stands. TFF's worker inherits the environment.
"""

import os

# No messages of its start on the user's terminal.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
# Faster convolutions on CPUs for which TensorFlow 2.14 does not choose oneDNN
# by itself. Results differ in the last bits.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
