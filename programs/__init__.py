"""What a person runs."""

import os
import signal
import sys
from typing import Any

# Before TensorFlow is loaded, as in `tff_local_ams`, which says why.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('GRPC_VERBOSITY', 'ERROR')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')


def _end(*arguments: Any) -> None:
  del arguments  # Unused.
  os.write(2, b'Interrupted.\n')
  os._exit(130)


# `python -m programs.train` and the like import for seconds, in which there is
# nothing to clean up after Ctrl-C. `cli.entry_point.run` ends that. In the
# background Ctrl-C is ignored, and stays so.
if (
  sys.argv[0] == '-m'
  and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
  signal.signal(signal.SIGINT, _end)
