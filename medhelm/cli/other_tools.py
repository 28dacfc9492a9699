"""Settings that people type from memory of other tools, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medhelm.config import BenchmarkChoice, Job
from medhelm.errors import closest
from medhelm.schema.type_errors import field_names

TOP = ("benchmark", "suite", "plugins", "experiment", "examples", "form")
"""Keys of the command line beside those of a job."""

_SYNONYMS = {
    "max_instances": "limit n num_instances max_eval_instances num_samples max_samples samples "
    "max_examples num_examples subset",
    "benchmark": "task tasks dataset datasets scenario scenarios benchmarks run_entries eval evals",
    "benchmark.split": "split subset_name",
    "model": "models model_name model_id engine deployment",
    "model.max_output_tokens": "max_tokens max_gen_toks max_new_tokens max_completion_tokens",
    "model.base_url": "api_base url host endpoint model_base_url",
    "model.max_concurrency": "batch_size max_connections num_concurrent concurrency num_threads "
    "parallelism num_workers",
    "model.extra_body.device": "device",
    "model.sampling.stop": "stop_sequences stop_seqs until",
    "model.system_prompt": "system_message system_instruction",
    "suite": "suites group groups collection",
    "results_dir": "output output_path output_dir out log_dir out_dir save_dir",
    "examples": "num_fewshot fewshot max_train_instances num_shots shots few_shot n_shot",
    "ask": "cot chain_of_thought prompt_template prompting prompt",
    "benchmark.instruction": "instruction instructions",
    "form": "output_type response_format answer_format",
    "repeats": "epochs num_train_trials trials num_trials n_repeats",
    "plugins": "plugin include_path",
    "jury": "judge judges grader graders annotator scorer judge_model",
    "budget_usd": "budget cost_limit max_cost max_usd",
    "budget_tokens": "token_limit token_budget",
    "data_dir": "data_path cache_dir local_path",
}
_NAMES = {word: key for key, words in _SYNONYMS.items() for word in words.split()}

_ARGUMENTS = "settings of a model are model.KEY=VALUE (`medhelm run model=NAME --cfg job`)"
_WITHOUT = {
    "model_args": _ARGUMENTS,
    "model_kwargs": _ARGUMENTS,
    "gen_kwargs": _ARGUMENTS,
    "generate_kwargs": _ARGUMENTS,
    "profile": "thresholds belong to `medhelm gate --profile NAME`",
    "log_samples": "every request and response is kept in the run folder; `medhelm show` prints them",
    "use_cache": "answers are kept in the run folder: the same command asks nothing twice",
    "resume": "the same command goes on where it stopped",
    "retry": "the same command asks again what failed",
    "apply_chat_template": "a local model's own chat template is always applied",
    "verbosity": "there is no such setting; what goes wrong is printed on the standard error",
    "metrics": "a benchmark names its metrics; `medhelm score --metric NAME` adds one afterwards",
    "metric": "a benchmark names its metrics; `medhelm score --metric NAME` adds one afterwards",
}
_EXAMPLE = {
    "plugins": "[FILE.py]",
    "benchmark": "NAME",
    "model": "PROVIDER/NAME",
}


def keys_below(parent: str) -> list[str]:
    """Return the keys that the config has at a path."""
    if parent == "benchmark":
        return [*field_names(BenchmarkChoice, ""), "instruction"]
    if parent:
        return field_names(Job, parent)
    return [*(key for key in field_names(Job, "") if key != "benchmarks"), *TOP]


def meant_key(full_key: str) -> str:
    """Return the key that an unknown one probably means; empty where none is near."""
    parent, _, key = full_key.lower().replace("-", "_").rpartition(".")
    paths = [*_paths()]
    if same := [path for path in paths if path.rpartition(".")[2] == key]:
        return min(same, key=lambda path: (not path.startswith(parent), path.count(".")))
    if key in _NAMES:
        return _NAMES[key]
    above = f"{parent}." if parent else ""
    if near := closest(key, keys_below(parent), 1):
        return above + near[0]
    near = closest(key, [path.rpartition(".")[2] for path in paths], 1)
    return next((p for p in paths if near and p.rpartition(".")[2] == near[0]), "")


def explain_key(full_key: str) -> str:
    """Return what an error says of an unknown key beyond its name."""
    if why := _WITHOUT.get(full_key.replace("-", "_").rpartition(".")[2]):
        return f": {why}"
    meant = meant_key(full_key)
    if meant == full_key:  # it has a name, and nothing above it has a value
        above = full_key.rpartition(".")[0]
        inner = ", ".join(f"{key}: ..." for key in keys_below(above))
        return f": {above} has no value yet; give it whole, '{above}={{{inner}}}'"
    example = _EXAMPLE.get(meant, "")
    did = f"{meant}={example}" if example else meant
    return f"; did you mean {did!r}?" if meant else ""


def explain_option(option: str, value: str) -> str:
    """Return what to type in place of an option that `run` does not have; empty where unknown."""
    key = option.lstrip("-").replace("-", "_")
    if why := _WITHOUT.get(key):
        return f"there is no option {option}: {why}"
    meant = key if key in keys_below("") else meant_key(key)
    if not meant or len(key) < 2:
        return ""
    value = f"[{value}]" if meant == "plugins" and value else value
    written = f"{meant}={value or _EXAMPLE.get(meant, '...')}"
    return f"there is no option {option}: settings are KEY=VALUE, write {written}"


def explain_word(word: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return what to type in place of a word without `=`; empty where it is not a name."""
    groups = [group for group, known in names.items() if word in known]
    if groups:
        return f"{word!r} needs its key: write {groups[0]}={word}"
    if word in keys_below(""):
        return f"{word!r} needs a value: write {word}={_EXAMPLE.get(word, '...')}, without a space"
    return ""


def _paths(parent: str = "") -> Iterator[str]:
    above = f"{parent}." if parent else ""
    for key in keys_below(parent):
        path = above + key
        yield path
        if path not in TOP or path == "benchmark":
            yield from _paths(path)
