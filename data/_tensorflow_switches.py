"""What TensorFlow and gRPC read from the environment when they are loaded.

As in `tff_local_ams`, whichever of the two packages comes first: no messages on
the user's terminal, and oneDNN. What the user has set stands.
"""

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('GRPC_VERBOSITY', 'ERROR')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
