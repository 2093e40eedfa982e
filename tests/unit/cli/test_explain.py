# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln explain` and `kiln run --trace`: the JSON against itself, the page clicked through in headless Chromium, the
trace's form. Models: the digits, one whose names are markup, one of a thousand operators."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

KILN, ROOT, PLUGINS = sys.argv[1:4]
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
import numpy as np  # noqa: E402
import onnx_writer as onnx  # noqa: E402

DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
INPUT = os.path.join(ROOT, "examples/digits/three.npy")
HOSTILE = ['</script><script>window.bad = 1</script>', '"><img src=x onerror="window.bad=1">', "a\\'\"\n\u2028<!--\U0001f525"]
FOLDER = tempfile.TemporaryDirectory()
CASES, BROWSER = [], []


def case(function):
    CASES.append(function)
    return function


def kiln(*arguments, code=0, said=None):
    run = subprocess.run([KILN, *arguments], capture_output=True, text=True, check=False, timeout=500)
    assert run.returncode == code, f"rc {run.returncode}: {run.stdout[-400:]}{run.stderr[-400:]}"
    if said is not None:
        said.append(run.stderr)
    return run.stdout


def file_of(name):
    return os.path.join(FOLDER.name, name)


def write_model(name, nodes, inputs, outputs, opset=17):
    with open(file_of(name), "wb") as file:
        file.write(onnx.model(onnx.Graph(nodes, inputs, outputs), opset))
    return file_of(name)


def hostile_model():
    a, b, y = HOSTILE
    x = np.zeros((4, 8), np.float32)
    return write_model("names.onnx", [onnx.node("Add", [a, b], ["s"]), onnx.node("Tanh", ["s"], ["t"]),
                                      onnx.node("Softmax", ["t"], [y], axis=1)], {a: x, b: x}, {y: x})


def large_model():
    """A thousand operators: chains that fuse, with reductions over other axes in between, and joins."""
    x = np.zeros((16, 16), np.float32)
    nodes, last, kept = [], "x", "x"
    for i in range(250):
        nodes += [onnx.node("Sigmoid", [last], [f"a{i}"]), onnx.node("Mul", [f"a{i}", kept], [f"b{i}"]),
                  onnx.node("MatMul", [f"b{i}", "x"], [f"c{i}"]), onnx.node("Tanh", [f"c{i}"], [f"d{i}"])]
        last, kept = f"d{i}", f"b{i}" if i % 7 == 0 else kept
    nodes.append(onnx.node("Identity", [last], ["y"]))
    return write_model("large.onnx", nodes, {"x": x}, {"y": x})


def wide_model():
    x = np.zeros((1024, 1024), np.float32)
    return write_model("wide.onnx", [onnx.node("Relu", ["x"], ["a"]), onnx.node("Neg", ["a"], ["b"]),
                                     onnx.node("Abs", ["b"], ["y"])], {"x": x}, {"y": x})


def explained(model, *arguments, said=None):
    """The data; what was written to standard error goes into the list `said`."""
    path = file_of("explain.json")
    kiln("explain", model, f"--json={path}", *arguments, said=said)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- the data ----

def check_reasons(data):
    """An operation that a reason names by number is the one of that name, and none before the block that was tried."""
    ops, named = data["ops"], 0
    places = [(i, op["candidates"] or []) for i, op in enumerate(ops)]
    places += [(min(block["ops"]), block["candidates"]) for block in data["blocks"]]
    for first, candidates in places:
        for candidate in candidates:
            told = re.match(r"operation (\d+) \((\w+)\): .", candidate["reason"] or "")
            assert told or not re.search(r"operation \d", candidate["reason"] or ""), candidate
            if told:
                named += 1
                assert int(told[1]) >= first and ops[int(told[1])]["name"] == told[2], (ops[first], candidate)
    return named


def check_whole(data):
    assert data["version"] == 2
    ops, blocks, steps, tensors = (data[k] for k in ("ops", "blocks", "steps", "tensors"))
    assert ops and steps and tensors and data["fusers"]
    for i, block in enumerate(blocks):
        assert all(ops[o]["block"] == i for o in block["ops"])
        winners = [c for c in block["candidates"] if c["status"] == "winner"]
        assert len(winners) == 1 and winners[0]["fuser"] == block["fuser"], block["candidates"]
        assert winners[0]["ops"] == sum(ops[o]["name"] != "drop" for o in block["ops"]), "drops are no operations"
        assert block["sources"] and all(len(s["text"]) > 20 for s in block["sources"])
        assert block["predicted_ns"] > 0 and block["baseline_ns"] > block["predicted_ns"]
    check_reasons(data)
    for i, op in enumerate(ops):
        inside = op["block"] is not None
        assert not inside or i in blocks[op["block"]]["ops"]
        if not inside and op["name"] != "drop":
            assert {c["fuser"] for c in op["candidates"]} == set(data["fusers"]), op
            assert all(c["status"] != "winner" and c["reason"] for c in op["candidates"]), op
            assert steps[op["step"]]["op"] == i
        numbers = [int(n) for n in re.findall(r"%(\d+)", op["text"])]
        assert numbers == op["outputs"] + op["inputs"], f"one number for a tensor: {op}"
        for t in op["outputs"] if op["name"] != "drop" else []:
            assert t is None or tensors[t]["made_by"] == i
    peak = max(s["live_bytes"] for s in steps)
    assert peak <= data["memory"]["peak_bytes"]
    assert data["memory"]["peak_bytes"] >= data["memory"]["resident_bytes"]


def check_layout(data):
    """What is needed at once lies apart, in the arena, and the figures are those of the values."""
    layout, steps, tensors = data["memory"]["layout"], data["steps"], data["tensors"]
    values, n = layout["values"], len(steps)
    assert values and layout["peak_bytes"] == layout["arena_bytes"] + layout["result_bytes"]
    assert layout["bound_bytes"] <= layout["peak_bytes"] <= layout["all_bytes"]
    assert len(layout["live_bytes"]) == n and max(layout["live_bytes"]) == layout["bound_bytes"]
    needed = [v for v in values if v["home"] != "kept"]
    assert sum(v["bytes"] for v in needed if not v["in_place"]) == layout["all_bytes"]
    inside = [v for v in values if v["home"] == "arena" and v["bytes"]]
    for v in values:
        assert 0 <= v["first_step"] <= v["last_step"] <= n, v
        assert (v["kind"] == "tensor") == (v["tensor"] is not None), v
        if v["tensor"] is not None:
            assert tensors[v["tensor"]]["bytes"] <= v["bytes"], v
    for k, v in enumerate(inside):
        assert v["offset"] + v["bytes"] <= layout["arena_bytes"], v
        for w in inside[:k]:
            apart = v["offset"] + v["bytes"] <= w["offset"] or w["offset"] + w["bytes"] <= v["offset"]
            later = v["first_step"] > w["last_step"] or w["first_step"] > v["last_step"]
            follows = v["in_place"] and v["first_step"] == w["last_step"] and v["offset"] == w["offset"]
            assert apart or later or follows, (v, w)
    return layout


@case
def memory_is_the_assignment():
    layout = check_layout(explained(DIGITS))
    assert {v["home"] for v in layout["values"]} >= {"arena", "result"}
    check_layout(explained(large_model(), "--runs", "1"))
    assert explained(DIGITS, "--runs", "0")["memory"]["layout"] is None  # known after the first run
    text = kiln("explain", DIGITS)
    assert f"arena {layout['arena_bytes']}, results {layout['result_bytes']}; liveness needs " \
        f"{layout['bound_bytes']}" in text, text[-300:]


def reading_model():
    """NonZero's length is read back: what lies before and behind it are parts of their own."""
    x = np.zeros((64, 64), np.float32)
    i = np.zeros((2, 0), np.int64)
    nodes = [onnx.node("Abs", ["x"], ["a"]), onnx.node("Exp", ["a"], ["b"]), onnx.node("Softmax", ["b"], ["c"]),
             onnx.node("NonZero", ["c"], ["i"]), onnx.node("Neg", ["c"], ["d"]), onnx.node("Tanh", ["d"], ["e"]),
             onnx.node("MatMul", ["e", "x"], ["y"])]
    return write_model("reading.onnx", nodes, {"x": x}, {"y": x, "i": i})


@case
def parts_of_a_model_that_reads():
    model = reading_model()
    data = explained(model)
    assert data["version"] == 2 and len(data["graphs"]) == 2, data.keys()
    for part in data["graphs"]:
        check_whole({**data, **part})
        check_layout(part)
        assert all(t["name"] is None for t in part["tensors"])
        assert any(s["runs"] == 5 for s in part["steps"])
    assert "nodes 0 to " in data["graphs"][0]["name"] and "of 7, from Abs on" in data["graphs"][0]["name"]
    assert any("softmax" in op["text"] for op in data["graphs"][0]["ops"])
    assert any("matmul" in op["text"] for op in data["graphs"][1]["ops"])
    text = kiln("explain", model)
    assert "graph 1 of 2: " in text and "graph 2 of 2: " in text and text.count("memory: ") == 2
    run = subprocess.run([KILN, "explain", model, "--runs", "0"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "nothing between two reads became a graph" in run.stderr


@case
def what_is_causal_is_compared_behind_the_product():
    """So a fuser of attention sees what hides the scores, also where heads share keys."""
    query = np.zeros((1, 8, 256, 32), np.float32)
    for heads in (8, 2):
        keys = np.zeros((1, heads, 256, 32), np.float32)
        nodes = [onnx.node("Attention", ["q", "k", "v"], ["y"], is_causal=1)]
        model = write_model(f"causal-{heads}.onnx", nodes, {"q": query, "k": keys, "v": keys}, {"y": query}, opset=23)
        order = [re.search(r" = (\w+)\(", op["text"]).group(1) for op in explained(model)["ops"] if " = " in op["text"]]
        assert order[order.index("matmul"):][:4] == ["matmul", "greater", "mask_fill", "softmax"], order


@case
def json_of_the_digits():
    data = explained(DIGITS)
    check_whole(data)
    assert data["blocks"], "nothing fused"
    for i, step in enumerate(data["steps"]):
        assert step["runs"] == 5 and step["measured_ns"] >= 0, (i, step)
    for i, block in enumerate(data["blocks"]):
        of_steps = sum(s["measured_ns"] for s in data["steps"] if s["block"] == i)
        assert abs(block["measured_ns"] - of_steps) <= 1e-3 * of_steps
    assert [t["name"] for t in data["tensors"] if t["input"] == 0] == ["image"]
    assert [t["name"] for t in data["tensors"] if t["output"] == 0] == ["log_probability"]


@case
def json_without_runs():
    data = explained(DIGITS, "--runs", "0")
    check_whole(data)
    assert all(s["measured_ns"] is None and s["runs"] == 0 for s in data["steps"])
    data = explained(DIGITS, "--no-fusion")
    assert not data["blocks"] and all(s["op"] is not None for s in data["steps"])


@case
def json_of_tournaments():
    data = explained(wide_model(), "--tune", "full", "--set", f"cache-dir={FOLDER.name}/cache")
    check_whole(data)
    assert len(data["blocks"]) == 1
    block = data["blocks"][0]
    winner = next(c for c in block["candidates"] if c["status"] == "winner")
    assert block["unfused_ns"] > 0 and winner["measured_ns"] > 0, block["candidates"]


@case
def losers_have_margins():
    data = explained(wide_model(), "--plugin", os.path.join(PLUGINS, "chain_slow.so"))
    losers = [c for b in data["blocks"] for c in b["candidates"] if c["status"] == "candidate"]
    assert losers and all(c["reason"] for c in losers), losers
    for b in data["blocks"]:
        ops = next(c["ops"] for c in b["candidates"] if c["status"] == "winner")
        for c in b["candidates"]:
            if c["status"] == "candidate":
                assert (c["margin_percent"] is not None) == (c["ops"] == ops), (ops, c)
    arguments = ("--plugin", os.path.join(PLUGINS, "chain_short.so"), "--plugin", os.path.join(PLUGINS, "chain_late.so"),
                 "--set", "plugins=test.chain-short,test.late",
                 "--set", "cache-dir=off")  # where failures are kept, a later run would know them
    said = []
    data = explained(wide_model(), *arguments, said=said)
    assert "no plugin has the id" not in said[0], said
    equal = [c["ops"] == b["candidates"][0]["ops"] for b in data["blocks"] for c in b["candidates"][1:]]
    assert equal, data["blocks"]


@case
def a_winner_that_fails_is_shown():
    model = wide_model()
    arguments = ("--plugin", os.path.join(PLUGINS, "chain_fast.so"), "--set", "plugins=test.fast",
                 "--set", "cache-dir=off")  # where a failure is kept, a second run would know it
    data = explained(model, *arguments)
    failed = [b for b in data["blocks"] if b["failure"]]
    assert len(failed) == 1 and failed[0]["fuser"].startswith("test.fast"), data["blocks"]
    assert "its operations run one by one" in kiln("explain", model, *arguments)


@case
def a_run_asks_the_next_after_a_failure():
    np.save(file_of("x.npy"), np.zeros((1024, 1024), np.float32))
    for plugins, counts, most in (("", "3 operations: 3 in 1", 2), ("test.fast", "3 operations: 0 in 0", 2)):
        run = subprocess.run([KILN, "run", wide_model(), "--input", file_of("x.npy"), "--tune", "off", "--plugin",
                              os.path.join(PLUGINS, "chain_fast.so"), "--set", f"plugins={plugins}", "--set",
                              "cache-dir=off"], capture_output=True, text=True, check=True, timeout=500)
        found = re.search(r"operations: (\d+), of them (\d+) in (\d+) fused", run.stdout)
        assert found and "{} operations: {} in {}".format(*found.groups()) == counts, (plugins, run.stdout)
        assert 1 <= run.stderr.count("runs unfused") <= most, run.stderr


@case
def text_has_times_and_memory():
    text = kiln("explain", DIGITS)
    for part in ("block 0: 2 operations (", "winner ", "declined ", ", took ", "memory: "):
        assert part in text, part
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "__kernel" in kiln("explain", DIGITS, "--source")


@case
def one_count_of_operations():
    """Without drops, in what `kiln run` says, in the text, the JSON and each block."""
    said = [line for line in kiln("run", DIGITS, "--input", INPUT).splitlines() if line.startswith("operations: ")]
    text = kiln("explain", DIGITS)
    data = explained(DIGITS)
    counts = f"operations: {data['operations']}, of them {data['operations_fused']} in {len(data['blocks'])} fused blocks"
    assert said == [counts] and text.startswith(counts + "\n"), (said, counts, text[:100])
    assert sum(op["name"] != "drop" for op in data["ops"]) == data["operations"]
    in_blocks = 0
    for i, block in enumerate(data["blocks"]):
        count = sum(data["ops"][o]["name"] != "drop" for o in block["ops"])
        assert f"block {i}: {count} operation" in text, i
        assert all(c["ops"] == count for c in block["candidates"] if c["status"] == "winner"), i
        in_blocks += count
    assert in_blocks == data["operations_fused"]


@case
def files_that_cannot_be_written():
    for option in ("--json", "--html"):
        kiln("explain", DIGITS, f"{option}=/nowhere/file", code=1)
    kiln("run", DIGITS, "--input", INPUT, "--trace", "/nowhere/file", code=1)
    assert json.loads(kiln("explain", DIGITS, "--json"))["version"] == 2


# ---- the trace ----

def check_nesting(events):
    """Spans of one track are apart or inside each other."""
    tracks = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            assert e["dur"] >= 0
            tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for track, spans in tracks.items():
        open_ends = []
        for start, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start + 2e-3:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 2e-3, f"{track}: {name} at {start} ends outside"
            open_ends.append(end)
    return tracks


@case
def trace_of_a_run():
    path, repeats = file_of("trace.json"), 4
    kiln("run", DIGITS, "--input", INPUT, "--trace", path, "--repeat", str(repeats), "--tune", "off",
         "--set", "cache-dir=off")
    steps = explained(DIGITS, "--tune", "off", "--set", "cache-dir=off")["steps"]
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    check_nesting(events)
    host = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    kinds = collections.Counter(e["cat"] for e in host)
    for kind in ("record", "search", "build", "run", "enqueue", "read"):
        assert kinds[kind] > 0, f"no {kind}: {kinds}"
    calls = [e for e in host if e["cat"] == "enqueue"]
    for i in range(len(steps)):
        assert sum(e["args"]["step"] == i for e in calls) == repeats + 1, f"step {i}"
    assert all(e["args"]["bytes"] > 0 and "[" in e["args"]["shapes"] for e in calls)
    assert {e["args"].get("block") for e in calls} >= {0, None}
    ran = [e for e in events if e["ph"] == "X" and e["cat"] == "step"]
    views = sum(s["kernel"] is None and s["measured_ns"] is not None for s in steps)
    assert len(ran) >= (repeats + 1) * (len(steps) - views)
    for e in ran:
        args = e["args"]
        assert args["queued_us"] <= args["submit_us"] + 1 and args["submit_us"] <= e["ts"] + 1, e
    start, end = (f(e["ts"] for e in events if "ts" in e) for f in (min, max))
    assert 0 < sum(e["dur"] for e in ran) < (end - start) * 1.2, "the device was busy longer than the run"
    flows = collections.Counter((e["ph"], e["id"]) for e in events if e["ph"] in "sf")
    ids = {i for _, i in flows}
    assert ids and all(flows["s", i] == 1 and flows["f", i] == 1 for i in ids), flows
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in events)
    waits = collections.Counter(e["id"] for e in events if e["ph"] in "be")
    assert all(n == 2 for n in waits.values())


@case
def trace_by_an_option():
    path = file_of("option.json")
    kiln("run", DIGITS, "--input", INPUT, "--set", f"trace={path}", "--device", "reference", "--repeat", "1")
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert any(e.get("cat") == "enqueue" for e in events)
    said = []
    kiln("run", DIGITS, "--input", INPUT, "--set", "trace=/nowhere/t.json", code=1, said=said)
    assert "option trace: /nowhere/t.json cannot be written: No such file" in said[0], said


# ---- the page, in a browser ----

def browser():
    if BROWSER:
        return BROWSER[0]
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--window-size=1400,900", f"--user-data-dir={file_of('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    BROWSER.append(webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options))
    BROWSER[0].set_page_load_timeout(120)
    return BROWSER[0]


def opened(model, *arguments):
    path = file_of("page.html")
    kiln("explain", model, "--html", path, "--json=" + file_of("page.json"), *arguments)
    page = browser()
    page.get("about:blank")
    page.get("file://" + path)
    assert page.execute_script("return window.kilnReady === true"), complaints(page)
    with open(file_of("page.json"), encoding="utf-8") as file:
        return page, json.load(file)


def complaints(page):
    return [entry["message"] for entry in page.get_log("browser")]


def click(page, selector):
    """A real click where it can be seen: the page moves what was chosen into view."""
    from selenium.webdriver.common.by import By
    element = page.find_element(By.CSS_SELECTOR, selector)
    page.execute_script("arguments[0].scrollIntoView && arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def shown(page):
    from selenium.webdriver.common.by import By
    side = page.find_element(By.ID, "side")
    return side.get_attribute("data-shows"), side.get_attribute("textContent")


def page_digits():
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    page, data = opened(DIGITS)
    real = [i for i, op in enumerate(data["ops"]) if op["name"] != "drop"]
    nodes = page.find_elements(By.CSS_SELECTOR, "#graph .node")
    assert len(nodes) == len(real) + 2, f"{len(nodes)} nodes"
    for i, block in enumerate(data["blocks"]):
        click(page, f'#side [data-open="b{i}"]')
        key, text = shown(page)
        assert key == f"b{i}"
        for part in (block["fuser"], "Candidates", block["sources"][0]["text"][:40], f"Block {i}"):
            assert part in text, (i, part)
        for c in block["candidates"]:
            assert c["fuser"].split("/")[-1] in text and c["reason"] in text
        cells = page.find_elements(By.CSS_SELECTOR, "#side .candidates .won td")
        assert cells[4].text == str(next(c["ops"] for c in block["candidates"] if c["status"] == "winner")), text
        click(page, "#back")
        assert shown(page)[0] == "overview"
    colours = {n.find_element(By.TAG_NAME, "rect").value_of_css_property("fill") for n in nodes}
    assert len(colours) >= len(data["blocks"]) + 2, colours
    page.execute_script("document.getElementById('fit').click()")
    for i in real: # every node, by a click on the drawing
        page.find_element(By.CSS_SELECTOR, f'#graph [data-key="o{i}"] rect').click()
        key, text = shown(page)
        assert key == f"o{i}" and data["ops"][i]["text"] in text, (key, i)
        for c in data["ops"][i]["candidates"]:
            assert c["reason"] in text
    assert page.execute_script("const t = document.getElementById('timeline'), w = Number(t.getAttribute('width'));"
                               "return [...t.querySelectorAll('.axis text')].filter(e => "
                               "e.getBBox().x + e.getBBox().width > w).length") == 0
    bars = page.find_elements(By.CSS_SELECTOR, "#timeline .step")
    assert len(bars) == len(data["steps"])
    widest = max(range(len(bars)), key=lambda i: bars[i].size["width"])
    bars[widest].click()
    step = data["steps"][widest]
    assert shown(page)[0] == (f"b{step['block']}" if step["block"] is not None else f"o{step['op']}")
    search = page.find_element(By.ID, "search")
    fuser = data["blocks"][-1]["fuser"].split("/")[-1] # which of them wins is the machine's

    def found(word):  # in an operation's text, or the name of its block's fuser
        return sum(word in data["ops"][i]["text"] or (data["ops"][i]["block"] is not None and
                   word in data["blocks"][data["ops"][i]["block"]]["fuser"]) for i in real)
    assert found(fuser) > 0
    first = sum(data["ops"][i]["block"] == 1 for i in real)
    assert 0 < first < sum("1" in data["ops"][i]["text"] for i in real if data["ops"][i]["block"] is not None)
    for words, count in (("block 1", first), ("Block  1 nothing", 0), ("block 99", 0), ("conv", found("conv")), (fuser, found(fuser)), ("image", 2),
                         ("nothing like this", 0)):
        search.clear()
        search.send_keys(words)
        hits = page.find_elements(By.CSS_SELECTOR, "#graph .node.hit")
        assert len(hits) == count, (words, len(hits))
    search.clear()
    search.send_keys("log_softmax" + Keys.ENTER)
    assert "log_softmax" in shown(page)[1]
    search.send_keys(Keys.ESCAPE + Keys.ESCAPE)
    assert shown(page)[0] == "overview"
    page.execute_script("document.querySelector('#graph .node[tabindex=\"0\"]').focus()")
    focus = page.switch_to.active_element
    focus.send_keys(Keys.ARROW_DOWN)
    moved = page.switch_to.active_element
    assert moved.get_attribute("data-key") != focus.get_attribute("data-key")
    moved.send_keys(Keys.ENTER)
    assert shown(page)[0] == moved.get_attribute("data-key")
    page.back()
    assert not complaints(page), complaints(page)


def page_hostile_names():
    page, data = opened(hostile_model())
    assert page.execute_script("return window.bad === undefined")
    names = {t["name"] for t in data["tensors"] if t["name"]}
    assert set(HOSTILE) <= names, names
    for i, t in enumerate(data["tensors"]):
        if t["name"]:
            page.execute_script(f"location.hash = 't{i}'; open('t{i}')")
            assert t["name"] in shown(page)[1]
    assert page.execute_script("return window.bad === undefined && document.scripts.length === 3")
    assert not complaints(page), complaints(page)


def page_of_memory():
    from selenium.webdriver.common.by import By
    page, data = opened(DIGITS)
    layout = data["memory"]["layout"]
    drawn = page.find_elements(By.CSS_SELECTOR, "#layout .value")
    expected = [i for i, v in enumerate(layout["values"]) if v["bytes"] and v["first_step"] < len(data["steps"]) and
                (v["home"] == "arena" or v["home"] == "result" and not v["in_place"])]
    assert [int(d.get_attribute("data-value")) for d in drawn] == expected and expected
    scale = 80 / layout["peak_bytes"]
    for d, i in zip(drawn, expected):  # lower is a smaller offset, to scale
        v = layout["values"][i]
        if v["home"] == "arena":
            assert abs(138 - (v["offset"] + v["bytes"]) * scale - float(d.get_attribute("y"))) < 0.2, (i, v)
        assert ("at " + str(v["offset"]) if v["home"] == "arena" else "of its own") in d.get_attribute("textContent")
    tensor = next(i for i in expected if layout["values"][i]["tensor"] is not None)
    page.execute_script(f"document.querySelector('[data-value=\"{tensor}\"]').dispatchEvent(new MouseEvent('click'))")
    assert shown(page)[0] == f"t{layout['values'][tensor]['tensor']}"
    page.execute_script("open('')")
    assert "Liveness needs" in shown(page)[1]
    page, data = opened(reading_model())
    names = [o.text for o in page.find_elements(By.CSS_SELECTOR, "#part option")]
    assert names == [g["name"] for g in data["graphs"]] and len(names) == 2
    assert "softmax" in page.execute_script("return document.getElementById('graph').textContent").lower()
    page.execute_script("const c = document.getElementById('part'); c.value = 1; c.dispatchEvent(new Event('change'))")
    for _ in range(100):
        if "graph=1" in page.current_url and page.execute_script("return window.kilnReady === true"):
            break
        time.sleep(0.1)
    assert "matmul" in page.execute_script("return document.getElementById('graph').textContent").lower()
    assert page.find_elements(By.CSS_SELECTOR, "#layout .value")
    assert not complaints(page), complaints(page)


def page_says_where_operations_come_from():
    """The model's names and attributes, one number for a tensor, a roofline, and what a time is."""
    from selenium.webdriver.common.by import By
    page, data = opened(DIGITS)
    conv = next(i for i, op in enumerate(data["ops"]) if op["name"] == "conv")
    node = data["nodes"][data["ops"][conv]["node"]]
    assert node["operator"] == "Conv" and "kernel_shape=[3,3]" in node["attributes"], node
    page.execute_script(f"open('o{conv}')")
    text = shown(page)[1]
    assert node["name"] in text and "kernel_shape" in text and "[3,3]" in text, text
    assert node["name"] in page.find_element(By.CSS_SELECTOR, f'#graph [data-key="o{conv}"]').get_attribute("textContent")
    unnamed = data["ops"][conv]["outputs"][0]
    page.execute_script(f"open('t{unnamed}')")
    assert shown(page)[1].startswith(f"\u2190 Overview%{unnamed}"), shown(page)[1]
    assert f"%{unnamed}:" in data["ops"][conv]["text"], data["ops"][conv]
    page.execute_script("open('')")
    dots = page.find_elements(By.CSS_SELECTOR, "#roof circle")
    timed = [b for b in data["blocks"] if b["measured_ns"] and b["bytes"]]
    assert len(dots) >= len(timed) > 0 and "(medians)" in shown(page)[1], shown(page)[1]
    assert "The last run of 5" in page.find_element(By.ID, "run").text
    assert "medians" in page.find_element(By.ID, "facts").text
    assert not complaints(page), complaints(page)


def page_of_two_runs():
    from selenium.webdriver.common.by import By
    other = file_of("other.json")
    kiln("explain", DIGITS, "--no-fusion", f"--json={other}")
    page, data = opened(DIGITS, "--beside", other)
    lines = page.find_elements(By.CSS_SELECTOR, "#two tbody tr")
    named = [line.text for line in lines]
    assert "all steps" in named[0] and len(lines) >= len(data["blocks"]) + 1, named
    for i in range(len(data["blocks"])):
        assert sum(f"block {i} " in name for name in named) == 1, (i, named)
    with open(other, encoding="utf-8") as file:
        there = json.load(file)
    assert len(page.find_elements(By.CSS_SELECTOR, "#timeline .step.other")) == len(there["steps"])
    assert not complaints(page), complaints(page)
    kiln("explain", DIGITS, "--html", file_of("x.html"), "--beside", DIGITS, code=1)
    kiln("explain", DIGITS, "--html", file_of("x.html"), "--beside", "/nowhere", code=1)


def page_on_a_phone():
    """Nothing lies over the first node, nor is the page wider than the screen."""
    page, _ = opened(DIGITS)
    for width in (390, 1280):
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                             {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500})
        page.refresh()
        seen = page.execute_script(
            "const r = nodes[0].g.querySelector('rect').getBoundingClientRect(), bad = [];"
            "for (const [x, y] of [[.02, .5], [.5, .05], [.5, .5], [.5, .95], [.98, .5]]) {"
            "  const e = document.elementFromPoint(r.left + r.width * x, r.top + r.height * y);"
            "  if (!e || !nodes[0].g.contains(e)) bad.push([x, y, e && (e.id || e.className || e.tagName)]); }"
            "return { bad, wide: document.documentElement.scrollWidth - innerWidth };")
        assert not seen["bad"] and seen["wide"] <= 0, (width, seen)
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def page_of_a_thousand_operators():
    start = time.monotonic()
    page, data = opened(large_model(), "--runs", "1")
    took = time.monotonic() - start
    assert sum(op["name"] != "drop" for op in data["ops"]) >= 1000
    check_whole(data)
    drawn = page.execute_script("return performance.timing.domContentLoadedEventEnd - performance.timing.responseEnd")
    assert drawn < 20000, f"{drawn} ms to draw"
    searched = page.execute_script("const t = performance.now(); document.getElementById('search').value = 'tanh';"
                                   "find(); open('b' + (D.blocks.length - 1)); return performance.now() - t")
    assert searched < 5000, f"{searched} ms to search"
    print(f"    a thousand operators: {drawn} ms to draw, {searched:.0f} ms to search, {took:.1f} s in all")
    assert not complaints(page), complaints(page)


def main():
    missing = next((n for n in ("chromium", "chromedriver") if shutil.which(n) is None), None)
    try:
        import selenium  # noqa: F401
    except ImportError:
        missing = missing or "python3-selenium"
    for function in (page_digits, page_hostile_names, page_of_memory, page_says_where_operations_come_from,
                     page_of_two_runs, page_on_a_phone, page_of_a_thousand_operators):
        if missing:
            print(f"SKIP explain {function.__name__}: no {missing}")
        else:
            CASES.append(function)
    wanted, failed = sys.argv[4:], 0
    for function in CASES:
        if wanted and not any(w in function.__name__ for w in wanted):
            continue
        try:
            function()
            print(f"PASS explain {function.__name__}")
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL explain {function.__name__}: {type(problem).__name__} {problem}")
            import traceback
            traceback.print_exc(file=sys.stdout)
    for page in BROWSER:
        page.quit()
    FOLDER.cleanup()
    sys.exit(1 if failed else 0)


main()
