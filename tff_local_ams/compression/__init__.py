"""Few bits a number, for what clients send and for what they are sent.

Both parts go into any algorithm of `tff.learning` and of this package:

- `build_upload_quantiser` is a `model_aggregator`. It is unbiased, and random.
- `build_download_quantiser` is a `model_distributor`. It sends the same to all
  clients, and nothing in it is random.

What travels are the packed bits, so that `tff_local_ams.communication` counts
what is really sent.
"""

from tff_local_ams.compression.download import DOWNLOAD_BITS
from tff_local_ams.compression.download import build_download_quantiser
from tff_local_ams.compression.download import decode_weights
from tff_local_ams.compression.download import encode_weights
from tff_local_ams.compression.upload import UPLOAD_BITS
from tff_local_ams.compression.upload import build_record_quantiser
from tff_local_ams.compression.upload import build_upload_quantiser

__all__ = [
  'DOWNLOAD_BITS',
  'UPLOAD_BITS',
  'build_download_quantiser',
  'build_record_quantiser',
  'build_upload_quantiser',
  'decode_weights',
  'encode_weights',
]
