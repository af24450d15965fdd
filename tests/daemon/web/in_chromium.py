#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in headless Chromium: every view loads without an error on the console, a live run moves, nothing is wider than the
window, and a run of 200 trials is a file under 500 kB that is drawn within a second.

usage: in_chromium.py BUILD [SHOTS]

BUILD is the build folder. Screenshots go into SHOTS (default: BUILD/web-shots), at 390, 768 and 1440 pixels, light and dark.
Exits with 77 where there is no Chromium (scripts/setup --browser installs it).
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

RECIPE = """\
autotuned: 1
name: NAME
device: cpu
model: {type: mlp, hidden: 16, classes: 4}
data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}
optimizer: {type: sgd, lr: LR}
train: {epochs: 1, batch_size: 8}
start: {optimizer.set_to_none: off}
tune: {plugins: [set_to_none, memory_malloc]}
output: {dir: out-NAME}
"""
FINDING = {
    "id": "pageable_copies", "severity": "high", "plugin": "pinned_memory", "knob": "loader.pin_memory",
    "evidence": "copies from pageable memory take 27.5 % of the step (module backbone.layer4)",
    "advice": "let the loader give batches in page-locked memory, and copy without waiting",
    "gain": "at most 27.5 % of the step (1.38 x the rate), if these copies ran beside kernels",
    "code": "loader = DataLoader(dataset, ..., pin_memory=True)  # ...: your arguments stay as they are\n"
            "for images, labels in loader:\n"
            "    images = images.to(device, non_blocking=True)",
}
WIDTHS = (390, 768, 1440)
LIMIT_S = 60


def stop(what):
    sys.exit(f"in_chromium: {what}")


class Job:
    """A daemon over a fake trainer, in a home of its own."""

    def __init__(self, build, home):
        self.program = build / "bin/autotuned"
        self.home = home
        self.place = ""  # of the page, once the token was given
        trainer = home / "trainer"
        trainer.write_text(f"#!/bin/sh\nAUTOTUNED_FAKE='{home}/behaviour.json' exec {build}/tests/fake_trainer\n")
        trainer.chmod(0o755)
        self.environment = {
            "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(home), "XDG_RUNTIME_DIR": str(home),
            "AUTOTUNED_LOCKS": str(home), "AUTOTUNED_TRAINER": str(trainer),
        }

    def behave(self, **more):
        factors = {"optimizer.set_to_none=on": 1.3, "memory.malloc=keep": 1.2}
        (self.home / "behaviour.json").write_text(json.dumps({"factors": factors, "noise": 0.02, **more}))

    def command(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.home, env=self.environment, text=True, capture_output=True,
                              check=False)
        if done.returncode != 0:
            stop(f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def recipe(self, name, rate="0.1"):
        file = self.home / f"{name}.yaml"
        file.write_text(RECIPE.replace("NAME", name).replace("LR", rate))
        return file.name

    def events(self, number):
        """Of a run of the queue, as the daemon keeps them."""
        file = self.home / f".local/state/autotuned/daemon/{number:08}.events"
        return file.read_text() if file.exists() else ""

    def status(self):
        return json.loads(self.command("status", "--json"))

    @contextlib.contextmanager
    def daemon(self):
        with open(self.home / "daemon.log", "w") as log:
            daemon = subprocess.Popen([self.program, "serve", "--web", "--web-control"], cwd=self.home, env=self.environment,
                                      stdout=log, stderr=log)
        try:
            wait_until("the daemon serves", lambda: "serving" in (self.home / "daemon.log").read_text() or daemon.poll())
            yield
        finally:
            daemon.terminate()
            daemon.wait()


def wait_until(what, is_so):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    return stop(f"not within {LIMIT_S} s: {what}")


class Chromium:
    """One page of a browser, over the pipe of its debugging protocol."""

    def __init__(self, program, home):
        to_read, self.to = os.pipe()
        self.by, to_write = os.pipe()
        # Out of the way of 3 and 4, which the browser wants.
        ours, theirs = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, to_write))

        def place():
            os.dup2(ours, 3)
            os.dup2(theirs, 4)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   f"--user-data-dir={home}/chromium", "--remote-debugging-pipe", "about:blank"]
        with open(home / "chromium.log", "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=place,
                                            pass_fds=(3, 4))
        for fd in (to_read, to_write, ours, theirs):
            os.close(fd)
        self.received = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.received:
            chunk = os.read(self.by, 1 << 20)
            if not chunk:
                stop("Chromium has ended")
            self.received += chunk
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        whole = json.dumps(message).encode() + b"\0"
        while whole:
            whole = whole[os.write(self.to, whole):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    stop(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            stop(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, url):
        self.events = [event for event in self.events if event.get("method") != "Page.loadEventFired"]
        is_same = self.evaluate("location.href").split("#")[0] == url.split("#")[0]
        self.call("Page.navigate", url=url)
        if not is_same:
            wait_until(f"{url} is loaded", lambda: self.evaluate("document.readyState") == "complete")
        return self.two_frames()

    def two_frames(self):
        """When all is drawn, in milliseconds since the page was asked for."""
        return self.evaluate("new Promise((is_drawn) => requestAnimationFrame(() => requestAnimationFrame(() => "
                             "is_drawn(performance.now()))))")

    def wait_for(self, text):
        condition = f"document.body.textContent.includes({json.dumps(text)})"
        wait_until(f"'{text}' is on the page", lambda: self.evaluate(condition))

    def errors(self):
        """What the console told since the last call."""
        self.evaluate("1")  # what was under way has come
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
                # The page of a profile has no icon, and a browser asks for one all the same.
                if str(what["entry"].get("url")).endswith("/favicon.ico"):
                    continue
                found.append(f"{what['entry']['text']} ({what['entry'].get('url')})")
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert"):
                found.append(str(what["args"]))
        self.events = []
        return found

    def look(self, name, shots):
        """The view at every width and in both schemes: no error, nothing too wide, a screenshot of each."""
        for scheme in ("light", "dark"):
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for width in WIDTHS:
                self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
                self.two_frames()
                wide = self.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    stop(f"{name} is {wide} pixels wide in a window of {width}")
                size = self.call("Page.getLayoutMetrics")["cssContentSize"]
                clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], 6000), "scale": 1}
                shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
                (shots / f"{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))
        if errors := self.errors():
            stop(f"{name}: errors on the console: {errors}")
        print(f"{name}: looked at")

    def close(self):
        self.process.terminate()
        self.process.wait()


def check_live(browser, job, shots):
    number = json.loads(job.command("run", job.recipe("live", "0.3"), "--detach", "--json"))["job"]
    wait_until("the run is measured", lambda: "block" in job.events(number))
    browser.open(f"{job.place}#/job/{number}")
    browser.wait_for(" so far (")
    now = "[...document.querySelectorAll('.number')].map((one) => one.textContent).join()"
    drawing = "[...document.querySelectorAll('canvas')].map((one) => one.toDataURL()).join()"
    text, picture = browser.evaluate(now), browser.evaluate(drawing)
    wait_until("the text of a live run moves", lambda: browser.evaluate(now) != text)
    wait_until("the charts of a live run move", lambda: browser.evaluate(drawing) != picture)
    browser.look("live", shots)
    browser.open(job.place + "#/")
    browser.wait_for(f"number {number}")
    press = "[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('cancel')).click()"
    browser.evaluate(press)
    browser.evaluate(press)
    wait_until("the run is cancelled", lambda: [one for one in job.status()["jobs"] if one["id"] == number][0]["state"] == "cancelled")
    print("live: moves, and is cancelled by two presses")


def check_export(browser, job, run, shots):
    file = job.home / "run.html"
    job.command("export", run, "--html", str(file))
    browser.open(file.as_uri())
    browser.look("export", shots)
    page = file.read_text()
    head, data, tail = re.fullmatch(r'(.*id="run">)(.*?)(</script>.*)', page, re.S).groups()
    story = json.loads(data)
    while len(story["trials"]) < 200:
        trial = dict(story["trials"][len(story["trials"]) % 2], number=len(story["trials"]) + 1)
        trial.update(reason="undecided in its time: " + 100 * "r", proposal_reason=130 * "p", pair_ratios=40 * [1012],
                     ratio=1 + 0.3 / trial["number"], ratio_low=0.95, ratio_high=1.4, pairs=40)
        story["trials"].append(trial)
    # One training in two runs, and a finding with all that can be said of it.
    story["lineage"] = [{"run": run, "length": "10 epochs", "steps": 18750, "state": "finished", "is_interrupted": False},
                        {"run": "r-20261126-0a1b2c", "length": "20 epochs", "steps": None, "state": "cancelled", "is_interrupted": False}]
    story["start"]["profile"]["findings"] = [FINDING]
    large = job.home / "large.html"
    large.write_text(head + json.dumps(story, separators=(",", ":")).replace("<", "\\u003c") + tail)
    size = large.stat().st_size
    if size >= 500_000:
        stop(f"a run of 200 trials is a file of {size} bytes")
    drawn_ms = browser.open(large.as_uri())
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    if drawn_ms >= 1000:
        stop(f"a run of 200 trials is drawn after {drawn_ms:.0f} ms")
    browser.look("export-200-trials", shots)
    print(f"export: 200 trials are {size} bytes, drawn after {drawn_ms:.0f} ms")


def main():
    if len(sys.argv) < 2:
        stop(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("skipped: there is no Chromium (scripts/setup --browser installs it)")
        sys.exit(77)
    shots = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else build / "web-shots").resolve()
    shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="autotuned-test-") as folder:
        job = Job(build, pathlib.Path(folder).resolve())
        job.behave()
        with job.daemon():
            runs = [json.loads(job.command("run", job.recipe(name, rate), "--json").splitlines()[-1])["run"]
                    for name, rate in (("small", "0.1"), ("other", "0.2"))]
            job.behave(block_lasts_ms=150, train_step_lasts_ms=300)
            browser = Chromium(program, job.home)
            try:
                browser.open(job.status()["page"])
                browser.wait_for("small")
                job.place = browser.evaluate("location.href").split("#")[0]
                if "token" in job.place:
                    stop("the token stays in the address")
                browser.look("runs", shots)
                for name, place, text in (("run", f"#/run/{runs[0]}", "Is it faster?"),
                                          ("compare", f"#/compare/{runs[0]}/{runs[1]}", "What differs")):
                    browser.open(job.place + place)
                    browser.wait_for(text)
                    browser.look(name, shots)
                check_live(browser, job, shots)
                browser.open(f"{job.place}profile/{runs[0]}/start")
                browser.wait_for("Timeline")
                browser.look("profile", shots)
                check_export(browser, job, runs[0], shots)
            finally:
                browser.close()
    print(f"as expected; screenshots are in {shots}")


if __name__ == "__main__":
    main()
