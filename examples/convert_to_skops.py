"""Turn pickled models into files that can be opened without running code from them.

Run this where the model was made, by the person who made it: opening a pickle runs whatever is in it.

    python convert_to_skops.py model.pkl                 # or .joblib: writes model.skops beside it
    python convert_to_skops.py target/ target_skops/     # a target folder of SACRO-ML: model, arrays and target.yaml

It needs scikit-learn and skops, joblib for .joblib, PyYAML for a folder; not Divulge. Where that is installed, too,
it is said which types it will ask for.
"""

import pickle
import sys
from pathlib import Path

import numpy as np
import skops.io


def read_pickle(path):
    if path.suffix == ".joblib":
        import joblib

        return joblib.load(path)
    with path.open("rb") as file:
        return pickle.load(file)


def convert_model(path, to):
    model = read_pickle(path)
    skops.io.dump(model, to)
    print(f"wrote {to}")
    others = set(skops.io.get_untrusted_types(file=to))
    try:
        from divulge.targets.skops_files import TRUSTED
    except ImportError:
        # Divulge checks the trees and other parts of scikit-learn's own models by itself.
        if others := sorted(name for name in others if not name.startswith("sklearn.")):
            print(f"types to name where it is opened, if Divulge asks for them: {', '.join(others)}")
        return
    if others := sorted(others.difference(TRUSTED)):
        print(f"types to name where it is opened, if you know what they do: trust = {others}")


def convert_folder(folder, to):
    import yaml

    to.mkdir(parents=True, exist_ok=True)
    target = yaml.safe_load((folder / "target.yaml").read_text(encoding="utf-8"))
    for key, name in list(target.items()):
        path = folder / str(name)
        if not key.endswith("_path") or not name or path.suffix not in (".pkl", ".pickle", ".joblib"):
            continue
        if key == "model_path":
            convert_model(path, to / f"{path.stem}.skops")
            target[key] = f"{path.stem}.skops"
        else:
            np.save(to / f"{path.stem}.npy", np.asarray(read_pickle(path)), allow_pickle=False)
            target[key] = f"{path.stem}.npy"
            print(f"wrote {to / f'{path.stem}.npy'}")
    (to / "target.yaml").write_text(yaml.safe_dump(target, sort_keys=False), encoding="utf-8")
    print(f"wrote {to / 'target.yaml'}")


def main(arguments):
    source = Path(arguments[0]) if arguments else Path()
    if len(arguments) not in (1, 2) or not source.exists():
        raise SystemExit(__doc__)
    if source.is_dir():
        convert_folder(source, Path(arguments[1]) if len(arguments) == 2 else source.with_name(f"{source.name}_skops"))
    else:
        convert_model(source, Path(arguments[1]) if len(arguments) == 2 else source.with_suffix(".skops"))


if __name__ == "__main__":
    main(sys.argv[1:])
