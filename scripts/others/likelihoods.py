r"""Compares the log-probabilities of options with those of lm-evaluation-harness, on MedQA.

    python scripts/others/likelihoods.py medhelm DATA MODEL
    ENV/bin/python scripts/others/likelihoods.py lm-eval DATA MODEL

Run by hand, in this order. DATA is the folder of the full data, MODEL a GGUF file or a folder of
weights; ENV holds lm-eval and its extra `hf`. The first asks the questions that `max_instances` takes, the second the same rows of the
file by the task that the package ships, whose options are letters, and by that task with the options'
texts. Numbers are stored, and no text of a question.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent / "likelihoods.json"
MED_QA = "med_qa/medqa_4options_test.medagents.jsonl"
QUESTIONS = 100
CANDIDATES = ("labels", "texts")
TEMPLATE = "Question: {question}\n{choices}\nAnswer:"
"""The prompt of the harness's task, without the instruction of ours."""

Found = dict[str, list[float]]
"""By id of the question, the log-probability of each option."""


def ask_medhelm(data: Path, model: Path, candidates: str, folder: str) -> Found:
    """Return what this package finds, by the run folder that a user has."""
    import medhelm
    from medhelm.schema.asking import Asking
    from medhelm.schema.model import ModelSpec
    from medhelm.store.records import find_runs, read_plan
    from medhelm.store.runlog import read_episodes

    spec = ModelSpec(
        name="hf/small",
        provider="hf",
        model=str(model),
        endpoint_class="local",
        extra_body={"chat_template": False},
    )
    asking = Asking(
        name="harness", template=TEMPLATE, instruction=" ", form="logprobs", candidates=candidates
    )
    medhelm.evaluate(
        spec, "med_qa", data_dir=data, results_dir=folder, max_instances=QUESTIONS, ask=asking
    )
    (run,) = find_runs(Path(folder))
    return {
        episode.instance_id: [own.logprob for own in episode.response.likelihoods]
        for episode in read_episodes(run, read_plan(run))
    }


def cleaned(option: str) -> str:
    """Return an option without the quotes that a table left, as this package shows it."""
    return option.removesuffix('\n"').replace('"""', '"')


def ask_lm_eval(data: Path, model: Path, candidates: str, folder: str, ids: list[str]) -> Found:
    """Return what the harness finds for the same questions."""
    from answers import read_lines
    from lm_eval_scores import OPTIONS, run

    rows = {f"test-{row['realidx']:05d}": row for row in read_lines(data / MED_QA)}
    asked = [
        {
            "id": name,
            "sent1": rows[name]["question"].strip(),
            **{
                f"ending{at}": cleaned(rows[name]["options"][key]) for at, key in enumerate(OPTIONS)
            },
            "label": OPTIONS.index(rows[name]["answer_idx"]),
        }
        for name in ids
    ]
    files = f"pretrained={model}"
    if model.is_file():
        files = f"pretrained={model.parent},gguf_file={model.name}"
    texts = {"doc_to_choice": "{{[ending0, ending1, ending2, ending3]}}"}
    samples = run(
        "medqa/medqa.yaml",
        asked,
        folder,
        "hf",
        f"{files},dtype=float32,device=cpu",
        has_chat=False,
        changes=texts if candidates == "texts" else {},
    )
    return {s["doc"]["id"]: [own[0] for own in s["filtered_resps"]] for s in samples}


def main() -> int:
    """Store what one of the two finds beside what is there of the other."""
    harness, data, model = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    stored: dict[str, Any] = json.loads(STORED.read_text()) if STORED.is_file() else {}
    found = {}
    for candidates in CANDIDATES:
        with tempfile.TemporaryDirectory() as folder:
            if harness == "medhelm":
                found[candidates] = ask_medhelm(data, model, candidates, folder)
            else:
                ids = [*stored["medhelm"][candidates]]
                found[candidates] = ask_lm_eval(data, model, candidates, folder, ids)
    package = {"medhelm": "medhelm-framework", "lm-eval": "lm-eval"}[harness]
    stored |= {"model": model.name, harness: {"version": version(package), **found}}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
