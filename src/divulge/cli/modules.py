"""Modules that the commands use, each imported at its first use: `divulge --help` starts without NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import lazy

if TYPE_CHECKING:
    from rich import cells as rich_cells
    from rich import console as rich_console
    from rich import progress as rich_progress
    from rich import table as rich_table
    from rich import text as rich_text

    from divulge import (
        attributes,
        auditing,
        canaries,
        datafiles,
        defences,
        evaluation,
        extraction,
        identification,
        inspection,
        labels,
        margin,
        plan,
        provenance,
        recipes,
        reconstruction,
        references,
        results,
        run_directory,
        runs,
        store,
        tables,
        targets,
        unlearning,
        user_code,
        validation,
        viewing,
    )
    from divulge import demo as demos
    from divulge import reconstruction as reconstruction_summary
    from divulge.attributes import result as attribute_result
    from divulge.auditing import compare as comparison
    from divulge.auditing import page as audit_page
    from divulge.auditing import plausibility, sacro_export
    from divulge.auditing import result as audit_result
    from divulge.auditing import verdict as audit_summary
    from divulge.auditing import weights as weights_audit
    from divulge.canaries import canary_page, canary_records
    from divulge.decisions import fdr as step_up
    from divulge.decisions import methods, planning
    from divulge.defences import trade_off
    from divulge.extraction import extraction_page
    from divulge.identification import (
        case_file,
        decision,
        document_scoring,
        finished_run,
        from_tables,
        identification_page,
        score_tables,
    )
    from divulge.labels import inference as labels_summary
    from divulge.references import pool
    from divulge.report import formatting, html, labels_page, markdown, run_kinds, sections, weights_page
    from divulge.report import one_page as one_page_report
    from divulge.report import page as report_page
    from divulge.signals import classification, internals
    from divulge.targets import estimators, folders, sacro_folders, token_statistics
    from divulge.unlearning import erasure_page
    from divulge.unlearning import pipeline as erasure_check
else:
    attribute_result = lazy.module("divulge.attributes.result")
    attributes = lazy.module("divulge.attributes")
    auditing = lazy.module("divulge.auditing")
    audit_page = lazy.module("divulge.auditing.page")
    audit_result = lazy.module("divulge.auditing.result")
    audit_summary = lazy.module("divulge.auditing.verdict")
    canaries = lazy.module("divulge.canaries")
    canary_page = lazy.module("divulge.canaries.canary_page")
    canary_records = lazy.module("divulge.canaries.canary_records")
    case_file = lazy.module("divulge.identification.case_file")
    classification = lazy.module("divulge.signals.classification")
    comparison = lazy.module("divulge.auditing.compare")
    datafiles = lazy.module("divulge.datafiles")
    decision = lazy.module("divulge.identification.decision")
    defences = lazy.module("divulge.defences")
    demos = lazy.module("divulge.demo")
    document_scoring = lazy.module("divulge.identification.document_scoring")
    inspection = lazy.module("divulge.inspection")
    erasure_check = lazy.module("divulge.unlearning.pipeline")
    erasure_page = lazy.module("divulge.unlearning.erasure_page")
    estimators = lazy.module("divulge.targets.estimators")
    evaluation = lazy.module("divulge.evaluation")
    extraction = lazy.module("divulge.extraction")
    extraction_page = lazy.module("divulge.extraction.extraction_page")
    finished_run = lazy.module("divulge.identification.finished_run")
    folders = lazy.module("divulge.targets.folders")
    formatting = lazy.module("divulge.report.formatting")
    from_tables = lazy.module("divulge.identification.from_tables")
    html = lazy.module("divulge.report.html")
    identification = lazy.module("divulge.identification")
    identification_page = lazy.module("divulge.identification.identification_page")
    internals = lazy.module("divulge.signals.internals")
    labels = lazy.module("divulge.labels")
    labels_page = lazy.module("divulge.report.labels_page")
    labels_summary = lazy.module("divulge.labels.inference")
    margin = lazy.module("divulge.margin")
    markdown = lazy.module("divulge.report.markdown")
    methods = lazy.module("divulge.decisions.methods")
    plan = lazy.module("divulge.plan")
    planning = lazy.module("divulge.decisions.planning")
    plausibility = lazy.module("divulge.auditing.plausibility")
    one_page_report = lazy.module("divulge.report.one_page")
    pool = lazy.module("divulge.references.pool")
    provenance = lazy.module("divulge.provenance")
    recipes = lazy.module("divulge.recipes")
    reconstruction = lazy.module("divulge.reconstruction")
    reconstruction_summary = lazy.module("divulge.reconstruction")
    references = lazy.module("divulge.references")
    report_page = lazy.module("divulge.report.page")
    results = lazy.module("divulge.results")
    rich_cells = lazy.module("rich.cells")
    rich_console = lazy.module("rich.console")
    rich_progress = lazy.module("rich.progress")
    rich_table = lazy.module("rich.table")
    rich_text = lazy.module("rich.text")
    run_directory = lazy.module("divulge.run_directory")
    run_kinds = lazy.module("divulge.report.run_kinds")
    runs = lazy.module("divulge.runs")
    sacro_export = lazy.module("divulge.auditing.sacro_export")
    sacro_folders = lazy.module("divulge.targets.sacro_folders")
    score_tables = lazy.module("divulge.identification.score_tables")
    sections = lazy.module("divulge.report.sections")
    step_up = lazy.module("divulge.decisions.fdr")
    store = lazy.module("divulge.store")
    tables = lazy.module("divulge.tables")
    targets = lazy.module("divulge.targets")
    token_statistics = lazy.module("divulge.targets.token_statistics")
    trade_off = lazy.module("divulge.defences.trade_off")
    unlearning = lazy.module("divulge.unlearning")
    user_code = lazy.module("divulge.user_code")
    validation = lazy.module("divulge.validation")
    viewing = lazy.module("divulge.viewing")
    weights_audit = lazy.module("divulge.auditing.weights")
    weights_page = lazy.module("divulge.report.weights_page")
