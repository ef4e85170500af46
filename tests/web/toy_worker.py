"""Stand for a worker: sleep, die or repeat what is asked, in the same form of messages."""

from __future__ import annotations

import json
import os
import sys
import time


def message():
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    return sys.stdin.buffer.read(size)


def say(text):
    sys.stdout.buffer.write(len(text).to_bytes(4, "big") + text)
    sys.stdout.buffer.flush()


say(b"ready")
count = 0
while question := message():
    verb, _, body = question.partition(b"\0")
    asked = json.loads(body)
    count += 1
    if asked.get("do") == "die":
        os._exit(1)
    time.sleep(asked.get("sleep", 0.0))
    size = len(body)
    answer = {"ok": "no" not in asked, "verb": verb.decode(), "process": os.getpid(), "count": count, "size": size}
    say((b"1" if answer["ok"] else b"0") + json.dumps(answer).encode())
