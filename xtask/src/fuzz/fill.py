"""Fills the server of `cargo xtask fuzz` with data, and writes the ids into the settings of schemathesis.

Called with the server's URL, its data directory and the file to write: settings of schemathesis, for what it cannot know by itself.
"""

import datetime
import json
import pathlib
import sys
import urllib.request

import credential

url, data_directory, settings = sys.argv[1:]
token = credential.everything(data_directory)
TENANT = "default"
# The same name as in schemathesis.toml.
QUOTA_TENANT = "limited"


def call(method, path, body=None):
    request = urllib.request.Request(f"{url}/api/tenants{path}", method=method)
    request.add_header("Authorization", f"Bearer {token}")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def start(kind, **more):
    return call("POST", f"/{TENANT}/workflows/{kind}/trigger", more)["workflowExecutionId"]


def create_task(kind, **more):
    return call("POST", f"/{TENANT}/tasks", {"task_type": kind, **more})["id"]


def fill():
    """Names and ids, by the name of the path parameter."""
    call("POST", "", {"slug": QUOTA_TENANT, "name": "Limited"})
    # The demo has created an order with tasks, attempts, a timer and a promise.
    done = call("GET", f"/{TENANT}/workflow-executions")["executions"][0]["id"]
    tasks = call("GET", f"/{TENANT}/workflow-executions/{done}/tasks")["tasks"]
    labels = {"environment": "fuzz"}
    waiting = [start("order", labels=labels, idempotencyKey=f"key-{n}", input={"n": n}) for n in range(3)]
    gone = start("refund")
    call("POST", f"/{TENANT}/workflow-executions/{gone}/cancel", {"reason": "to have one"})
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).isoformat()
    alone = [create_task("send-mail"), create_task("send-mail", scheduled_at=later, queue="mail")]
    cancelled = create_task("send-mail")
    call("DELETE", f"/{TENANT}/tasks/{cancelled}")
    call("POST", f"/{TENANT}/queues/mail/pause")
    revocable = call("POST", f"/{TENANT}/worker-tokens", {"name": "fuzz"})["id"]
    return {
        "executionId": [done, gone, *waiting],
        "taskId": [*alone, cancelled, *(task["id"] for task in tasks)],
        "workerTokenId": [revocable],
        "promise": ["key:approval", waiting[0]],
        "queue": ["default", "mail"],
        "kind": ["order", "refund"],
    }


def main():
    lines = [f'headers = {{ Authorization = "Bearer {token}" }}', "[parameters]", f'tenant = "{TENANT}"', "# Nobody works here: waiting would only take time.", 'wait = "0s"']
    known = fill()
    # Often enough to reach more than the 404, but not always.
    lines += [f'"path.{name}" = {{ dictionary = "{name}", probability = 0.7 }}' for name in known]
    for name, values in known.items():
        lines += [f"[dictionaries.{name}]", f"values = {json.dumps(values)}"]
    lines.append(pathlib.Path(__file__).with_name("schemathesis.toml").read_text(encoding="utf-8"))
    with open(settings, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    print(", ".join(f"{len(values)} of {name}" for name, values in known.items()), file=sys.stderr)


main()
