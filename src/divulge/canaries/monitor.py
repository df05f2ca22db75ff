"""Watch a training with canaries: insert them, see that they will be learnt, and bound ε at each evaluation."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import chats, lazy, seeds, store
from divulge.canaries import canary_rows, preflight
from divulge.canaries.canary_audit import RUN_TYPE as AUDIT_TYPE
from divulge.canaries.canary_audit import CanaryAudit, check_delta, score_canaries
from divulge.canaries.canary_kinds import fingerprints
from divulge.canaries.canary_records import RUN_TYPE as CANARIES_TYPE
from divulge.canaries.canary_records import Canaries, check_not_trained_on, find_copies, make, read_secret
from divulge.canaries.proof import Claim, check_both_sides, prove
from divulge.errors import InputError
from divulge.evaluation import auc, blind, epsilon_one_run
from divulge.evidence import concatenate_records
from divulge.run_directory import RunDirectory, peek_manifest, read_manifest
from divulge.settings import CanaryAuditSettings, CanarySettings
from divulge.targets.chat_templates import encode_document
from divulge.types import Records
from divulge.validation import check_bool, check_instance, check_path, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    import torch

    from divulge.canaries.canary_rows import RowForm
    from divulge.evaluation.epsilon import Sides
    from divulge.types import Floats
else:
    torch = lazy.module("torch")

_TOKENS_PER_BATCH = 1024  # scored at a time, padding included
_MIN_WHOLE = 0.9  # share of a secret's tokens below which it counts as cut
_DEFAULTS = CanaryAuditSettings()


class Monitor:
    """Canaries in a training that runs here: one object that inserts, checks, measures and proves.

    Call `insert` on the training set, `check` before the first step, `measure` as often as you evaluate, and `finish`
    at the end. `TrainerCallback` does all but the first by itself.

    Args:
        count: number of canaries, of which each is inserted by its own fair coin.
        kind: of canary, see `divulge.canaries.make`; by default random-token for texts, mislabelled for pairs (x, y)
            with labels.
        claim: the claim of differential privacy to test.
        sides: see `prove`.
        confidence: of each bound.
        members: records of the training set, to measure at each evaluation how well they are told from ``nonmembers``.
        nonmembers: records like them that are not trained on.
        seed: of canaries and coins; drawn from the system's entropy by default. Several processes need one.
        out: run directory. It holds the coins, which are a secret from whoever is to be audited, from `insert` on, so
            that a training that is resumed has the same, and the result from `finish` on.
        overwrite: replace what is in ``out`` and draw new coins.

    Raises:
        divulge.InputError: arguments outside their bounds, members without non-members.

    Examples:
        >>> from sklearn.linear_model import SGDClassifier
        >>> rng = np.random.default_rng(0)
        >>> monitor = Monitor(60, kind="random", seed=0)
        >>> x, y = monitor.insert((rng.normal(size=(100, 200)), rng.integers(0, 2, 100)))
        >>> monitor.check((x, y))
        >>> model = SGDClassifier(loss="log_loss", random_state=0)
        >>> for epoch in range(3):
        ...     look = monitor.measure(model.partial_fit(x, y, classes=[0, 1]), step=epoch)
        >>> look["divulge/auc"] > 0.6, look["divulge/epsilon"] == monitor.finish().epsilon.low
        (True, True)
    """

    _probes_gradients = True

    def __init__(
        self,
        count: int = 200,
        *,
        kind: str | None = None,
        claim: Claim | None = None,
        sides: Sides | str = _DEFAULTS.sides,
        confidence: float = _DEFAULTS.confidence,
        members: Records | None = None,
        nonmembers: Records | None = None,
        seed: int | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> None:
        checked = CanarySettings.check(count=count, seed=seed, **({} if kind is None else {"kind": kind}))
        self._count, self._seed = checked.count, checked.seed
        self._kind = None if kind is None else checked.kind
        settings = CanaryAuditSettings.check(sides=sides, confidence=confidence)
        self._sides, self._confidence = settings.sides, settings.confidence
        self._claim = None if claim is None else check_instance(claim, "claim", Claim)
        if (members is None) != (nonmembers is None):
            raise InputError("nonmembers: members and non-members are compared; give both, or neither")
        self._sets = [
            check_instance(each, name, Records)
            for each, name in ((members, "members"), (nonmembers, "nonmembers"))
            if each is not None
        ]
        self._out = None if out is None else RunDirectory(check_path(out, "out"))
        self._overwrite = check_bool(overwrite, "overwrite")
        self._canaries: Canaries | None = None
        self._form: RowForm | None = None
        self._start: Floats | None = None
        self._last: tuple[Floats, str] | None = None
        self._looks: list[dict[str, float]] = []
        self._blind: float | None = None
        self._notes: list[str] = []
        self._tokenizer: Any = None
        self._result: CanaryAudit | None = None
        self._is_checked = self._is_resumed = False
        self._stored_key = ""

    def insert(self, data: Any, *, text: str = "text") -> Any:
        """Return the training set with canaries, each inserted by its own fair coin, at its end.

        Args:
            data: datasets.Dataset, list or torch Dataset of texts, chats (``messages``), ``prompt`` and ``completion``
                or token ids (``input_ids``); or `divulge.Records`, a pair (x, y) or a torch Dataset of such pairs.
            text: column of texts.

        Returns:
            A data set of the same kind.

        Raises:
            divulge.InputError: rows of another form; canaries that cannot be made of them; ``out`` holds canaries of
                other data.
        """
        if self._canaries is not None:
            raise InputError("data: canaries were inserted already; each training needs a monitor of its own")
        stored = self._read_stored()
        seed = stored.seed if stored is not None else self._seed
        if seed is None:
            if int(os.environ.get("WORLD_SIZE", "1")) > 1:
                raise InputError("seed: several processes train together, and each would draw its own coins; give one")
            seed = secrets.randbits(63)
        rng = seeds.generator(seed, "canaries", "rows")
        is_records = isinstance(data, Records) or _is_pair(data) or canary_rows.is_dataset_of_pairs(data)
        if is_records:
            records = canary_rows.read_pairs(data, "data", rng)
            canaries = make(records, kind=self._kind or _default_kind(records), count=self._count, seed=seed)
            self._documents: list[str] = []
            result = canary_rows.append_pairs(data, canaries.insert)
            n_rows = len(data[0]) if _is_pair(data) else len(data)
        else:
            canary_rows.first_row(data)
            rows, n_rows = canary_rows.sample_rows(data, rng), len(data)
            self._form = canary_rows.find_form(rows, text)
            material = canary_rows.write_material(rows, self._form)
            drawn = make(material, kind=self._kind or "random-token", count=self._count, seed=seed)
            donors = [rows[i] for i in rng.integers(0, len(rows), len(drawn))]
            words = [str(secret) for secret in drawn.records.x]
            self._documents = [self._form.document(*pair) for pair in zip(donors, words, strict=True)]
            documents = np.empty(len(words), dtype=object)
            documents[:] = self._documents
            canaries = replace(drawn, records=Records(documents))
            inserted = [self._form.fill(donors[i], words[i]) for i in np.flatnonzero(canaries.included)]
            result = canary_rows.append_rows(data, inserted)
        canaries = replace(canaries, trained_on=n_rows)
        check_both_sides(canaries.included, "canaries")
        if self._claim is not None:
            check_delta(self._claim, n_rows + int(canaries.included.sum()))
        if stored is not None and (
            fingerprints(stored.records) != fingerprints(canaries.records)
            or (stored.included != canaries.included).any()
        ):
            raise InputError("out: holds canaries of other data or settings; give another directory, or overwrite=True")
        self._canaries = canaries
        if stored is None:  # What stands there is a training that goes on, or one that must not be replaced.
            self._save()
        return result

    def check(
        self,
        loader: Any,
        model: Any = None,
        *,
        tokenizer: Any = None,
        optimizer: Any = None,
        resume: bool = False,
        max_length: int | None = None,
        packs: bool = False,
    ) -> None:
        """Check, before the first step, that each inserted canary will be learnt, and no other one.

        Args:
            loader: what the training reads: a DataLoader, whose collator is called on its data set in order, or batches
                with ``input_ids`` and ``labels``; for records a pair (x, y), a DataLoader or a data set of pairs,
                before any random augmentation.
            model: the model as training starts from it. That a parameter is trained is checked on it, and canaries are
                scored by how much their loss falls from here; without it, by their loss alone.
            tokenizer: of texts and chats.
            optimizer: of the training, to see which parameters it changes.
            resume: whether the training goes on from a checkpoint.
            max_length: limit of tokens in a row, and
            packs: whether rows are packed; both only word the reason.

        Raises:
            divulge.InputError: inserted canaries whose secret has no labels, is cut off, lost by packing, or missing; a
                canary that was left out and is in the data; a model that nothing of it is trained; a training from the
                start with canaries whose scores have been looked at.
        """
        self._planted()
        if resume and self._seed is None and not self._is_resumed:
            raise InputError(
                "resume: the coins that this training began with are not known; give the out that it began with, "
                "or a seed"
            )
        if self._looks and not resume and not self._is_resumed:
            raise InputError("monitor: measure was called before check; call check once, before the first step")
        if self._looks and not resume:
            raise InputError(
                "out: these canaries were looked at in an earlier training, and prove nothing of another; give another "
                "directory, or overwrite=True for new coins (resume=True goes on with that training)"
            )
        with _undisturbed(model):
            if hasattr(model, "parameters"):
                preflight.require_trained(model, optimizer, int(self._planted().included.sum()))
            if self._form is None:
                self._check_records(canary_rows.read_pairs(loader, "loader"), model, optimizer)
            else:
                self._tokenizer = tokenizer if tokenizer is not None else self._tokenizer
                self._check_documents(loader, model, optimizer, max_length, packs)
            if hasattr(model, "parameters") and not resume:  # An estimator has not been fitted yet.
                self._start = self._score(model)[0]
        self._is_checked = True
        self._save()

    def _check_records(self, records: Records, model: Any, optimizer: Any) -> None:
        canaries = self._planted()
        check_not_trained_on(canaries, records)
        n_missing = int((~find_copies(canaries.insert, records)).sum())
        if n_missing:
            raise InputError(
                f"canaries: {n_missing} of {int(canaries.included.sum())} inserted canaries would not be learnt: they "
                "are not in the data that the training reads; hand over what `insert` returned"
            )
        if hasattr(model, "parameters") and not preflight.has_gradient(model, canaries.records.x[:8], optimizer):
            raise InputError("model: frozen: what it gives for canaries depends on no parameter that is trained")

    def _check_documents(self, loader: Any, model: Any, optimizer: Any, max_length: int | None, packs: bool) -> None:
        included = self._planted().included
        encoded = self._encode()
        hidden = [[token for token, is_secret in zip(*each, strict=True) if is_secret] for each in encoded]
        found = preflight.find_secrets(preflight.collate(loader), hidden)
        if n_leaked := preflight.count_leaked(found, included):
            raise InputError(
                f"canaries: {n_leaked} canaries that were left out are in the data all the same, so that no bound holds"
            )
        lengths = [len(ids) for ids, _ in encoded]
        if reasons := preflight.explain_losses(found, included, lengths, max_length, packs):
            n_lost = int((included & (found.trained < preflight.MIN_TRAINED)).sum())
            raise InputError(
                f"canaries: {n_lost} of {included.sum()} inserted canaries would not be learnt: {'; '.join(reasons)}. "
                "Training was not started"
            )
        if model is not None and self._probes_gradients:
            examples = list(found.examples.values())
            n_without = preflight.count_without_gradient(model, examples, optimizer)
            if n_without:
                raise InputError(
                    f"model: frozen: the loss of {n_without} of {len(examples)} canaries that were tried has no "
                    f"gradient for any parameter that is trained, of {included.sum()} inserted"
                )
        cut = included & (found.trained < _MIN_WHOLE)
        if cut.any():
            self._note(
                f"Of {int(cut.sum())} inserted canaries a part is cut off; {found.trained[cut].mean():.0%} of their "
                "tokens are learnt, so that more may leak than these canaries show."
            )

    def measure(self, target: Any, *, step: int | None = None, tokenizer: Any = None) -> dict[str, float]:
        """Score all canaries under the model as it is now; return what is to be logged.

        Args:
            target: the model; for records any target of `divulge.audit`.
            step: number of the step or epoch; by default evaluations are counted.
            tokenizer: of texts and chats, where `check` was not given it.

        Returns:
            ``divulge/epsilon``: lower bound on ε of this model alone, at the stated confidence.
            ``divulge/epsilon_so_far``: the largest of all evaluations so far, at that confidence for all of them
            together. ``divulge/auc`` with its interval (``_low``, ``_high``) of inserted canaries against the others.
            With members: ``divulge/members_auc``, likewise, and ``divulge/blind_auc``, what tells members from
            non-members without the model. Nothing where scores are not finite.

        Raises:
            divulge.InputError: canaries were not inserted; a target that does not suit them.
        """
        self._tokenizer = tokenizer if tokenizer is not None else self._tokenizer
        canaries = self._planted()
        with _undisturbed(target):
            scores, recipe = self._score(target)
            if self._start is not None and len(self._start) == len(scores):
                scores, recipe = scores - self._start, f"{recipe}, less that at the start"
            if not np.isfinite(scores).all():
                self._note("At an evaluation the loss of canaries was not finite; it was left out.")
                self._last = None
                return {}
            members = self._measure_members(target) if self._sets else {}
        number = len(self._looks) + 1
        # Shares of the error that add up to it, however many evaluations follow.
        share = (1 - self._confidence) / (number * (number + 1))
        bounds = [self._bound(scores, confidence) for confidence in (self._confidence, 1 - share)]
        area = auc(scores, canaries.included, self._confidence)
        self._last = (scores, recipe)
        look = {
            "divulge/epsilon": bounds[0],
            "divulge/epsilon_so_far": max(bounds[1], *(past["divulge/epsilon_so_far"] for past in self._looks), 0.0),
            **_name_interval("divulge/auc", area.value, area.low, area.high),
            **members,
        }
        self._looks.append({"step": number if step is None else step, **look})
        self._save()
        return look

    def finish(self) -> CanaryAudit:
        """Return what the last evaluation proves, and write it into ``out``.

        The bound is that of the last evaluation alone, which is not chosen by what the coins showed; a warning states
        what holds for the largest of all.

        Raises:
            divulge.InputError: no evaluation, or one with losses that are not finite.
        """
        canaries = self._planted()
        if self._last is None:
            raise InputError("monitor: there is no last evaluation, or its losses were not finite; call measure")
        scores, recipe = self._last
        notes = list(self._notes)
        if len(self._looks) > 1:
            notes.append(
                f"The canaries were scored at {len(self._looks)} evaluations. The bound is that of the last one. If "
                "training was ended, or a model chosen, by these bounds, take the one that holds for all evaluations "
                f"together: ε ≥ {self._looks[-1]['divulge/epsilon_so_far']:.2f}."
            )
        proof = prove(
            scores, canaries.included, claim=self._claim, sides=self._sides, confidence=self._confidence, seed=0
        )
        self._result = CanaryAudit(
            scores, canaries.included, proof, recipe, canaries.kind, canaries.trained_on, warnings=tuple(notes)
        )
        self._save()
        return self._result

    @property
    def result(self) -> CanaryAudit | None:
        """What `finish` returned last; None before."""
        return self._result

    @property
    def history(self) -> pl.DataFrame:
        """One row per evaluation: its step, and what `measure` returned."""
        return pl.DataFrame(self._looks, infer_schema_length=None)

    def _planted(self) -> Canaries:
        if self._canaries is None:
            raise InputError("data: there are no canaries yet; train on what insert(data) returns")
        return self._canaries

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _bound(self, scores: Floats, confidence: float) -> float:
        delta = 0.0 if self._claim is None else self._claim.delta
        return epsilon_one_run(scores, self._planted().included, delta, confidence, sides=self._sides).low

    def _score(self, target: Any) -> tuple[Floats, str]:
        if self._form is not None:
            return score_tokens(target, self._encode()), "loss of the secret"
        scores, name, notes = self._score_records(target, self._planted())
        for note in notes:
            self._note(note)
        return scores, name

    def _score_records(self, target: Any, planted: Canaries) -> tuple[Floats, str, tuple[str, ...]]:
        device = str(next(target.parameters()).device) if hasattr(target, "parameters") else _DEFAULTS.device
        return score_canaries(target, planted, _DEFAULTS.recipe, None, None, _DEFAULTS.outputs, device, _DEFAULTS.seed)

    def _measure_members(self, target: Any) -> dict[str, float]:
        """Return how well members are told from non-members by their loss, and without the model."""
        members, nonmembers = self._sets
        both = concatenate_records([each.without_ids() for each in self._sets])
        is_member = np.arange(len(both)) < len(members)
        if self._form is not None:
            scores = score_tokens(target, [_encode_text(self._tokenizer, str(text)) for text in both.x])
        else:
            scores = self._score_records(target, replace(self._planted(), records=both, included=is_member))[0]
        area = auc(scores, is_member, self._confidence)
        if self._blind is None:
            self._blind = blind.baseline(
                members.x, nonmembers.x, y_members=members.y, y_nonmembers=nonmembers.y
            ).auc.value
        return {
            **_name_interval("divulge/members_auc", area.value, area.low, area.high),
            "divulge/blind_auc": self._blind,
        }

    def _encode(self) -> list[tuple[list[int], list[bool]]]:
        """Return the token ids of each canary, and which of them are its secret."""
        assert self._form is not None
        return [
            _read_ids(document) if self._form.holds_tokens else _encode_text(self._tokenizer, document)
            for document in self._documents
        ]

    def _read_stored(self) -> Canaries | None:
        """Read what a training that is resumed has left in ``out``."""
        directory = self._out
        if directory is None or self._overwrite or _is_helper() or peek_manifest(directory.path) is None:
            return None
        kind = directory.kind()
        if kind not in (CANARIES_TYPE, AUDIT_TYPE) or not (directory.path / "secret" / "monitor.json").exists():
            raise InputError(f"out: {directory.path} holds another run; give another directory, or overwrite=True")

        def read() -> tuple[Canaries, Any, Mapping[str, Any]]:
            return read_secret(directory), directory.read_json("secret/monitor"), directory.read_arrays("secret/scores")

        stored, state, scores = directory.read(kind, read, only="secret/")
        self._stored_key = read_manifest(directory.path).key
        if self._seed is not None and self._seed != stored.seed:
            raise InputError(
                f"seed: {directory.path} holds canaries of another seed; give another directory, or overwrite=True"
            )
        self._looks, self._notes = list(state["looks"]), list(state["notes"])
        self._start = scores.get("start")
        if "last" in scores:
            self._last = (scores["last"], str(state["recipe"]))
        self._is_resumed = True
        return stored

    def _save(self) -> None:
        """Write canaries, scores and evaluations, and the result if there is one."""
        if self._out is None or _is_helper():
            return
        canaries, result = self._planted(), self._result
        kind = CANARIES_TYPE if result is None else AUDIT_TYPE
        arrays = {} if self._start is None else {"start": self._start}
        state: dict[str, Any] = {"looks": self._looks, "notes": self._notes, "recipe": ""}
        if self._last is not None:
            arrays["last"], state["recipe"] = self._last
        key = store.hash_values(kind, canaries.seed, len(self._looks), *(value for _, value in sorted(arrays.items())))
        manifest = peek_manifest(self._out.path)
        if self._stored_key and manifest is not None and manifest.key != self._stored_key:
            self._note(
                f"Another training has written into {self._out.path}; from then on this one wrote nothing there."
            )
            self._out = None
            return
        self._stored_key = key
        # Only what this monitor wrote, or was told to replace, is replaced.
        with self._out.writing(kind, key, overwrite=True) as draft:
            if result is not None:
                result.write_to(draft)
            canaries.write_secret(draft)
            draft.write_arrays("secret/scores", arrays)
            draft.write_json("secret/monitor", state)


def _is_helper() -> bool:
    """Return whether another process of the same training writes."""
    return int(os.environ.get("RANK", "0")) > 0


def _is_pair(data: Any) -> bool:
    return isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "shape")


def _default_kind(records: Records) -> str:
    return "mislabelled" if records.y is not None else "shuffled"


def _name_interval(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _encode_text(tokenizer: Any, document: str) -> tuple[list[int], list[bool]]:
    if tokenizer is None:
        raise InputError("tokenizer: texts and chats need it, to find canaries and to score them")
    encoded = encode_document(tokenizer, document, "tokenizer")
    in_answer = encoded.in_answer if encoded.in_answer is not None else [True] * len(encoded.ids)
    return encoded.ids, in_answer


def _read_ids(document: str) -> tuple[list[int], list[bool]]:
    dialogue = chats.parse_dialogue(document)
    before, secret = ("", document) if dialogue is None else (turn.content for turn in dialogue.turns)
    parts = [list(map(int, part.split())) for part in (before, secret)]
    return parts[0] + parts[1], [False] * len(parts[0]) + [True] * len(parts[1])


def score_tokens(model: Any, documents: Sequence[tuple[list[int], list[bool]]]) -> Floats:
    """Return the mean log-probability of the marked tokens of each document, ``[n]``.

    Args:
        model: a causal language model of transformers, with or without adapters.
        documents: token ids, and which of them count.

    Raises:
        divulge.InputError: a model that gives no logits.
    """
    device = next(model.parameters()).device
    config = getattr(model, "config", None)
    context = getattr(config, "max_position_embeddings", None) or 2**30
    pieces = [(ids[-context:], np.array(marks[-context:], bool)) for ids, marks in documents]
    scores = np.full(len(pieces), np.nan)
    order = sorted(range(len(pieces)), key=lambda i: len(pieces[i][0]))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * len(pieces[order[end]][0]) <= _TOKENS_PER_BATCH:
            end += 1
        rows = order[start:end]
        width = len(pieces[rows[-1]][0])
        ids = np.zeros((len(rows), width), np.int64)
        is_read, is_scored = (np.zeros((len(rows), width), bool) for _ in range(2))
        for row, i in enumerate(rows):
            length = len(pieces[i][0])
            ids[row, :length], is_read[row, :length] = pieces[i][0], True
            is_scored[row, 1:length] = pieces[i][1][1:]  # nothing comes before the first token
        with torch.no_grad():
            tokens = torch.as_tensor(ids, device=device)
            outputs = model(input_ids=tokens, attention_mask=torch.as_tensor(is_read, device=device).long())
            if not hasattr(outputs, "logits"):
                raise InputError(f"model: a causal language model is needed, got {format_value(type(model).__name__)}")
            marks = torch.as_tensor(is_scored[:, 1:], device=device)
            logp = -torch.nn.functional.cross_entropy(
                outputs.logits[:, :-1][marks].float(), tokens[:, 1:][marks], reduction="none"
            )
        counts = is_scored.sum(axis=1)
        sums = np.add.reduceat(
            np.r_[logp.double().cpu().numpy(), 0.0], np.r_[0, np.cumsum(counts)[:-1]]
        )  # one stretch per row
        scores[rows] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        start = end
    return scores


@contextlib.contextmanager
def _undisturbed(model: Any) -> Generator[None]:
    """Put a network into evaluation mode, and leave it and all random generators as they were."""
    modules = list(model.modules()) if hasattr(model, "modules") and hasattr(model, "parameters") else []
    modes = [module.training for module in modules]
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    generators: Callable[[], Any] = torch.random.fork_rng if modules else contextlib.nullcontext
    try:
        with generators():
            if modules:
                model.eval()
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
