"""Claims that no test can speak of."""

import pytest

from divulge import InputError, canaries
from divulge.canaries import canary_audit


@pytest.mark.parametrize(("delta", "refused"), [(0.1, False), (0.124, False), (0.125, True), (0.2, True)])
def test_a_delta_of_one_over_the_records_is_refused(delta, refused):
    claim = canaries.Claim(1.0, delta)
    if refused:
        with pytest.raises(InputError, match="must be below 1/8"):
            canary_audit._check_delta(claim, 8)
    else:
        canary_audit._check_delta(claim, 8)
