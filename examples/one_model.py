"""One model seen from five sides, in one folder of reports: run python examples/one_model.py [FOLDER].

A clinic's classifier: a body that was pretrained on public images, frozen, and a head trained on the clinic's own.
Images of clothing stand in for theirs, with diagnoses that are partly guesses.
"""

import html
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import divulge as dv
from divulge import demo

RARE = 8  # the class of which the auditor holds no record
N_MEMBERS, N_FRESH, N_POPULATION, N_SCORED = 200, 200, 1600, 60
WRONG = 0.3  # share of diagnoses that are guesses: what a model learns by heart


def make_model():
    """Build the network; the command line finds it under this name."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.LayerNorm(256, elementwise_affine=False))
    return nn.Sequential(body.requires_grad_(False), nn.Linear(256, 10))


def pretrain(body, public):
    """Teach the body public images, with a head that is thrown away; then freeze it."""
    body.requires_grad_(True)
    whole = nn.Sequential(body, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(whole.parameters(), lr=1e-3)
    x, y = torch.from_numpy(public.x), torch.from_numpy(public.y).long()
    for _ in range(5):
        for rows in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(whole(x[rows]), y[rows]).backward()
            optimizer.step()
    body.requires_grad_(False)


def train_head(head, features, y):
    """Train the head alone, with the least weight decay, until every record has a large margin."""
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def loss():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(head(features), y)
        value = value + 1e-6 * sum((parameter**2).sum() for parameter in head.parameters())
        value.backward()
        return value

    optimizer.step(loss)


def divulge(*arguments):
    """Run the command line, as you would type it, and return the lines it printed."""
    print("$ divulge", *arguments)
    command = [sys.executable, "-m", "divulge", *map(str, arguments)]
    here = Path(__file__).parent  # where the command line finds make_model
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    if process.returncode:
        raise SystemExit(process.stderr)
    return process.stdout


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    images = demo.fashion_mnist()
    rng = np.random.default_rng(0)
    images = images[rng.permutation(len(images))]
    ends = np.cumsum([N_MEMBERS, N_FRESH, N_POPULATION, 2000])
    public = images[ends[2] : ends[3]]
    guessed = np.where(rng.random(len(images)) < WRONG, rng.integers(0, 10, len(images)), images.y)
    images = dv.Records(images.x, guessed)
    members, fresh, everyone = (images[a:b] for a, b in zip([0, *ends], ends[:3], strict=False))
    model = make_model()
    pretrain(model[0], public)

    def features(records):
        return model[0](torch.from_numpy(records.x))

    train_head(model[1], features(members), torch.from_numpy(members.y).long())
    save_file(model.state_dict(), folder / "model.safetensors")
    sets = {"members": members, "nonmembers": fresh}
    reports = {}

    # 1. The rare class, of which the auditor holds no record: attacks compare candidates by the body's features.
    population = dv.access.DropClasses((RARE,)).apply(everyone)
    audited = {**sets, "population": population}
    result = dv.audit(
        model,
        **audited,
        unseen_classes=(RARE,),
        features={name: features(records).numpy() for name, records in audited.items()},
        recipes=("loss", "transductive"),
        out=folder / "unseen",
        overwrite=True,
    )
    reports["A class that the auditor has never seen"] = "unseen/report.html", result.verdict.text

    # 2. Someone knows the upper half of each image alone.
    known = np.zeros(images.x.shape[1:], dtype=bool)
    known[:14] = True
    result = dv.audit(
        model,
        **sets,
        population=everyone,
        options=dv.AuditOptions(known=known),
        recipes=("loss",),
        out=folder / "partial",
        overwrite=True,
    )
    reports["Upper halves of images alone"] = "partial/report.html", result.verdict.text

    # 3. Which of 400 images were used? Half of them were; neither model nor list is told which.
    def copy_model():
        copy = make_model()
        copy[0].load_state_dict(model[0].state_dict())  # the body is public
        return copy

    candidates = dv.Records(np.concatenate([members.x, fresh.x]), np.concatenate([members.y, fresh.y]))
    found = dv.identify(
        target=model,
        candidates=candidates,
        population=everyone,
        recipes=("rmia",),
        references=dv.references.Train(copy_model, count=4, epochs=20),
        fdr=0.1,
        out=folder / "list",
        overwrite=True,
    )
    true = int(found.selected[:N_MEMBERS].sum())
    text = f"{found.count} of {len(candidates)} images are listed, {true} of them rightly: {found.guarantee}."
    reports["Which of these images were used?"] = "list/report.html", text

    # 4. A leaderboard that scores predictions for 60 of the clinic's images: what do its scores give away?
    hidden = (members.y[:N_SCORED] == RARE).astype(int)
    submissions = folder / "submissions"
    options = ["--n", N_SCORED, "--decimals", 6, "--clip", 1e-15]
    divulge("labels", "design", *options, "--write", submissions, "--overwrite")
    scores = [log_loss(path, hidden) for path in sorted(submissions.glob("*.csv"))]
    (folder / "scores.txt").write_text("".join(f"{score:.6f}\n" for score in scores))
    divulge(
        "labels", "attack", *options, "--scores", folder / "scores.txt", "--out", folder / "labels.csv",
        "--report", folder / "labels.html",
    )  # fmt: skip
    read = np.genfromtxt(folder / "labels.csv", delimiter=",", names=True)["label"]
    text = f"{len(scores)} scores give away {int((read == hidden).sum())} of {N_SCORED} diagnoses."
    reports["Labels behind a scoring endpoint"] = "labels.html", text

    # 5. The weights alone: the head of the frozen body, without a question to the model.
    np.savez(folder / "candidates.npz", x=candidates.x, y=candidates.y, member=np.arange(len(candidates)) < N_MEMBERS)
    np.savez(folder / "others.npz", x=everyone.x[:200], y=everyone.y[:200])
    printed = divulge(
        "weights", folder / "model.safetensors", "--factory", f"{Path(__file__).stem}:make_model",
        "--candidates", folder / "candidates.npz", "--nonmembers", folder / "others.npz",
        "--out", folder / "weights.html",
    )  # fmt: skip
    reports["What the weights of the head prove"] = "weights.html", printed.splitlines()[0].lstrip("▲ ")

    items = "".join(
        f'<li><a href="{link}">{html.escape(title)}</a><br>{html.escape(" ".join(text.split()))}</li>'
        for title, (link, text) in reports.items()
    )
    page = f"<!doctype html><meta charset=utf-8><title>One model, five questions</title><ul>{items}</ul>"
    (folder / "index.html").write_text(page, encoding="utf-8")
    for title, (_, text) in reports.items():
        print(f"\n{title}\n  {' '.join(text.split())}")
    print(f"\nReports: {folder / 'index.html'}")


def log_loss(path, hidden):
    """Score a submission as the endpoint does."""
    submission = np.genfromtxt(path, delimiter=",", names=True)
    probability = np.where(hidden == 1, submission["p1"], submission["p0"])
    return -np.log(np.clip(probability, 1e-15, 1)).mean()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "one_model").absolute())
