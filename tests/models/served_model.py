"""A stand-in for `vllm serve`: a server of its own process that has its weights after a while.

    python served_model.py MODEL --port PORT [--loading SECONDS] [--fault NAME] [--note FILE]

It writes its process id, and that of a child that would outlive it, to the note, and how many of those
who did so before are still there.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--loading", type=float, default=0.0)
parser.add_argument("--fault", default=os.environ.get("FAULT", ""))
parser.add_argument("--answer", default="A", help="one of A|B|..., by what is asked")
parser.add_argument("--latency", type=float, default=0.0)
parser.add_argument("--note", default="")
args = parser.parse_args()
started = time.monotonic()
asked = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_loaded = time.monotonic() - started >= args.loading and args.fault != "never ready"
        if self.path == "/health" and args.fault != "no health":
            self.say(200 if is_loaded else 503, {})
        elif self.path == "/v1/models":  # as llama.cpp, which lists it before it is loaded
            self.say(200, {"data": [{"id": args.model}]})
        elif self.path == "/version":  # as vLLM
            self.say(200, {"version": "0.9.1"})
        else:
            self.say(404, {})

    def do_POST(self) -> None:
        global asked
        asked += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["model"] == args.model
        time.sleep(args.latency)
        if args.fault == "dies" and asked > 3:
            print("PROMPT", body["messages"], flush=True)
            os._exit(9)
        texts = args.answer.split("|")
        text = texts[zlib.crc32(json.dumps(body["messages"]).encode()) % len(texts)]
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1}
        self.say(200, {"model": args.model, "choices": [choice], "usage": usage})

    def say(self, status: int, value: object) -> None:
        payload = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        pass


if args.fault == "at start":
    print("loading\nCUDA out of memory: key is", os.environ.get("WARD_KEY"), flush=True)
    print("login", os.environ.get("HUB_TOKEN"), os.environ.get("GATEWAY"), flush=True)
    sys.exit(1)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if args.note:
    with open(args.note, "a+") as note:
        note.seek(0)
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "-")
        beside = sum(os.path.exists(f"/proc/{line.split()[0]}") for line in note)
        note.write(f"{os.getpid()} {child.pid} {args.model} {args.port} {beside} {gpus}\n")
if args.fault == "deaf":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("serving", args.model, flush=True)
server = ThreadingHTTPServer((args.host, args.port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Event().wait()
