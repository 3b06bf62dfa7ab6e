"""What a person runs."""

import os

# Before TensorFlow is loaded: no messages of its start, and faster convolutions
# on CPUs for which TensorFlow 2.14 does not choose oneDNN by itself. TFF's
# worker inherits both.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
