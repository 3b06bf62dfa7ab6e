"""What TensorFlow and gRPC read from the environment when they are loaded.

So this module is imported before anything that loads it. What the user has set
stands. TFF's worker inherits the environment.
"""

import os

# No messages of its start on the user's terminal, nor those of gRPC when a
# process has both TFF's worker and Ray.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('GRPC_VERBOSITY', 'ERROR')
# Faster convolutions on CPUs for which TensorFlow 2.14 does not choose oneDNN
# by itself. Results differ in the last bits.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
