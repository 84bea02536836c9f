"""Sends hostile bodies to every operation that takes a body: oversize, compressed, deeply nested, cut off.

Called by `cargo xtask fuzz` with the server's URL, its data directory, its process id and the file for its report. A
finding is an answer that should be a refusal but is not, any server error, or growth of the server's memory beyond its
limit.
"""

import gzip
import http.client
import json
import sys
import urllib.parse
import zlib

import credential

MIB = 1 << 20
# All bodies are sent one after the other: a few of the largest may be in memory at once, but not all of them.
MAX_GROWTH_KIB = 256 * 1024
DEEP = 10_000
BOMB = gzip.compress(b" " * (256 * MIB), 9)
DEFLATED = zlib.compress(b"[" * (256 * MIB), 9)

url, data_directory, process, report = sys.argv[1:]
token = credential.everything(data_directory)
address = urllib.parse.urlparse(url).netloc


def call(method, path, body=None, encoding=None, headers=()):
    connection = http.client.HTTPConnection(address, timeout=60)
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **dict(headers)}
    if encoding:
        sent["Content-Encoding"] = encoding
    try:
        connection.request(method, path, body, sent)
    except (BrokenPipeError, ConnectionResetError):
        # The server answered before it had read the whole body.
        pass
    try:
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (http.client.HTTPException, ConnectionError):
        return None, b""
    finally:
        connection.close()


def memory_kib(field):
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))


def nested(opening, closing, leaf="1"):
    return opening * DEEP + leaf + closing * DEEP


def bodies(example):
    """Name, body, encoding, and whether it must be refused."""
    deep = nested("[", "]").encode()
    yield "larger than 16 MiB", b" " * (16 * MIB + 1), None, True
    yield "larger than 16 MiB, an object", b'{"input":"' + b"x" * (16 * MIB) + b'"}', None, True
    yield "gzip bomb", BOMB, "gzip", True
    yield "gzip bomb as x-gzip", BOMB, "x-gzip", True
    yield "gzip bomb in a gzip", gzip.compress(BOMB), "gzip, gzip", True
    yield "deflate bomb", DEFLATED, "deflate", True
    yield "what is called brotli", BOMB, "br", True
    yield "what is called zstd", BOMB, "zstd", True
    yield "plain, called gzip", json.dumps(example).encode(), "gzip", True
    yield "deep list", deep, None, True
    yield "deep list that never ends", b"[" * DEEP, None, True
    yield "deep object", nested('{"a":', "}").encode(), None, True
    for field in example:
        if isinstance(example[field], (dict, list)) or field in ("input", "value", "signalValue"):
            for opening, closing in (("[", "]"), ('{"a":', "}")):
                text = json.dumps({**example, field: "HERE"}).replace('"HERE"', nested(opening, closing))
                yield f"deep {field}", text.encode(), None, False


def main():
    document = json.loads(call("GET", "/api/docs/openapi.json")[1])
    # From here on the peak is that of these bodies.
    with open(f"/proc/{process}/clear_refs", "w", encoding="ascii") as peak:
        peak.write("5")
    before = memory_kib("VmRSS")
    sent, wrong, operations = 0, [], 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "parameters" or "requestBody" not in operation:
                continue
            operations += 1
            example = operation["requestBody"]["content"]["application/json"]["example"]
            place = path.replace("{tenant}", "default").replace("{kind}", "fuzz").replace("{promise}", "key:fuzz")
            place = place.replace("{executionId}", "550e8400-e29b-41d4-a716-446655440000")
            assert "{" not in place, f"tell this script what to put into {place}"
            for name, body, encoding, must_refuse in bodies(example):
                status, answer = call(method.upper(), place, body, encoding)
                sent += 1
                # If the server hangs up while a body over its limit is still being sent, it has refused the body.
                cut = status is None and len(body) > 16 * MIB
                refused = cut or (status is not None and 400 <= status < 500)
                accepted = status is not None and 200 <= status < 300 and not must_refuse
                if not (refused or accepted):
                    wrong.append(f"{method} {place}, {name}: {status} {answer[:200]!r}")
    # The server still answers, and accepted data can be read.
    for path in ("workflow-executions", "tasks", "queues"):
        status, _ = call("GET", f"/api/tenants/default/{path}")
        if status != 200:
            wrong.append(f"GET {path} afterwards: {status}")
    growth = memory_kib("VmHWM") - before
    if growth > MAX_GROWTH_KIB:
        wrong.append(f"the server's memory grew by {growth // 1024} MiB, which is more than {MAX_GROWTH_KIB // 1024}")
    print(f"{operations} operations, {sent} bodies, {len(wrong)} wrong, memory grew by {growth // 1024} MiB at most")
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"operations": operations, "sent": sent, "growthKib": growth, "wrong": wrong}, file)


main()
