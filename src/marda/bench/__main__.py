"""`python -m marda.bench`."""

import sys

from marda.bench.run import main

sys.exit(main())
