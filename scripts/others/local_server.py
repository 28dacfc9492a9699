"""A server on this machine that answers chat completions by a function of the last message.

Imported in environments that hold another harness and nothing of this package.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LocalServer:
    """Answers requests of the OpenAI protocol with what `reply` gives at the time."""

    def __init__(self, reply: Callable[[str], str]) -> None:
        self.reply = reply
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Answer a request."""
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = last_text(request)
                body = json.dumps(completion(server.reply(text), len(text) // 4)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


def last_text(request: dict[str, Any]) -> str:
    """Return the text of the last message of a request."""
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) for part in content)


def completion(text: str, prompt_tokens: int) -> dict[str, Any]:
    """Return a chat completion of the protocol."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text) // 4}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "fixed",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }
