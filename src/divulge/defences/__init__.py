"""The user's own estimator, trained again with other settings, into privacy against utility.

Examples:
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from divulge.defences import suggest_settings
    >>> suggest_settings(RandomForestClassifier())[0]
    {'min_samples_leaf': 5}
"""

from divulge.defences.trade_off import TRADE_OFF, measure_settings, suggest_settings

__all__ = ["TRADE_OFF", "measure_settings", "suggest_settings"]
