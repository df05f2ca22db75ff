"""What every test run has in common: examples that hypothesis draws are the same each time.

`HYPOTHESIS=random pytest` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("random", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS", "fixed"))
