"""Every recipe that the settings of the attacks allow."""

from itertools import product

from divulge import InputError
from divulge.recipes import ATTACKS

RECORD_TYPES = ("classifiers", "documents")


def combinations(record_type):
    """Yield settings of every combination of values for records of one type, and whether they go together."""
    for attack in ATTACKS:
        if record_type not in attack.record_types():
            continue
        settings = attack.settings(record_type)
        for values in product(*(setting.choices or (setting.default,) for setting in settings)):
            chosen = dict(zip((setting.name for setting in settings), values, strict=True))
            try:
                yield attack, chosen, attack(**chosen)
            except InputError:
                yield attack, chosen, None


def forms(record_type):
    """Return name → recipe, of every combination that goes together."""
    valid_settings = [settings for _, _, settings in combinations(record_type) if settings is not None]
    recipes = [settings.recipe(documents=record_type == "documents") for settings in valid_settings]
    return {recipe.name: recipe for recipe in recipes}
