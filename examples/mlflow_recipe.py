"""Log a finished audit to MLflow: ``python mlflow_recipe.py RUN [--whole-run]``.

Verdict and settings become tags and parameters, each AUC and TPR with its interval metrics, and the one-page report and
the ROC curves artifacts: none of them holds a single record. ``--whole-run`` also logs the run directory, which holds
identifiers, scores and a report of single records: for a server that may have these.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import mlflow

import divulge as dv
from divulge import cli


def log_audit(folder, *, whole_run=False):
    """Log the audit in ``folder`` to a new run of the active experiment; return its id."""
    result = dv.load(folder)
    with mlflow.start_run(run_name=Path(folder).name) as run, tempfile.TemporaryDirectory() as temporary:
        mlflow.set_tags({"divulge.verdict": result.verdict.answer, "divulge.version": dv.__version__})
        mlflow.log_params(
            {"recipes": ", ".join(result), "members": int(result.members.sum()), "candidates": len(result.ids)}
        )
        for row in result.to_frame().iter_rows(named=True):
            # MLflow takes letters, digits and _ - . / and blanks in the name of a metric.
            name = re.sub(r"[^\w. /-]", "_", f"{row['recipe']}/{row['candidates']}/{row['statistic']}")
            ends = {"": row["value"], "_low": row["low"], "_high": row["high"]}
            mlflow.log_metrics({f"{name}{end}": value for end, value in ends.items() if value is not None})
        mlflow.log_dict(result.plot().to_dict(), "divulge/roc.vl.json")  # Vega-Lite
        page = Path(temporary) / "one_page.html"
        if cli.run(["report", str(folder), "--one-page", "--to", str(page)]):
            sys.exit("no report was made")
        mlflow.log_artifact(str(page), "divulge")
        if whole_run:
            mlflow.log_artifacts(str(folder), "divulge/run")
    return run.info.run_id


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run directory of an audit")
    parser.add_argument("--whole-run", action="store_true", help="log the run directory, too")
    arguments = parser.parse_args()
    print(log_audit(arguments.run, whole_run=arguments.whole_run))
