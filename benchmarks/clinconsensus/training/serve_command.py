"""`medhelm judge serve FOLDER` prints how a trained judge is served, and named as the grader of a run."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from medhelm.plugin import UsageError
from medhelm_benchmarks.clinconsensus.training.recipe import default_settings

_NO_THINKING = {"enable_thinking": False}


def run(args: argparse.Namespace) -> int:
    """Print the command of vLLM and the configs of the judge, and return the exit code."""
    folder = Path(args.folder)
    for name in ("config.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} has no {name}: name a folder of weights, as OUTPUT/final")
    if not 0 < args.port < 1 << 16:
        raise UsageError(f"--port {args.port} is not a port")
    settings = default_settings()
    window = settings["max_tokens"] + settings["new_tokens"]
    command = ["vllm", "serve", str(folder.resolve()), "--served-model-name", args.name,
               "--host", "127.0.0.1", "--port", str(args.port), "--max-model-len", str(window),
               "--default-chat-template-kwargs", json.dumps(_NO_THINKING)]  # fmt: skip
    print(
        f"# serve it (greedy decoding and {settings['new_tokens']} new tokens are asked for by medhelm)"
    )
    print(shlex.join(command))
    print(f"\n# conf/model/{args.name}.yaml of a folder that --config-dir names: over this server")
    print(_config(args.name, "openai", args.name, f"base_url: http://127.0.0.1:{args.port}/v1"))
    print("\n# or without a server, with the extra hf")
    print(_config(args.name, "hf", str(folder.resolve()), f"context_window: {window}"))
    return 0


def _config(name: str, provider: str, model: str, more: str) -> str:
    """Return a config of the judge: greedy, thinking off."""
    return "\n".join(
        (
            f"name: {json.dumps(name)}",
            f"provider: {provider}",
            f"model: {json.dumps(model)}",
            more,
            "sampling: {temperature: 0.0}",
            f"extra_body: {{chat_template_kwargs: {json.dumps(_NO_THINKING)}}}",
        )
    )
