#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several servers of the same models: clients that spread their calls as docs/remote.md says, while one is killed; and
the file for Kubernetes, whose arguments and probes a server takes. Arguments: kiln, the source folder."""
import os
import re
import ssl
import time
import urllib.error
import urllib.request

import grpc
import numpy
import yaml

from models_fixture import KILN, SOURCE, Models, call, curl, infer, messages
from serve_fixture import PATIENCE, Server, make_certificates, run_cases
import serving_models


def spread():
    """The policy of the page."""
    with open(os.path.join(SOURCE, "docs/remote.md"), encoding="utf-8") as file:
        return re.search(r"^SPREAD = '''(.*?)'''$", file.read(), re.MULTILINE | re.DOTALL).group(1)


def served(server):
    """Requests that a server has answered."""
    text = curl(f"{server.http}/metrics")[1].decode()
    return int(re.search(r'^kiln_requests_total\{model="scale",version="1"\} (\d+)$', text, re.MULTILINE).group(1))


class Spread:
    """What calls go through, as through a server."""

    def __init__(self, *servers):
        names = ",".join(server.target for server in servers)
        self.channel = grpc.insecure_channel(f"ipv4:{names}", options=[("grpc.service_config", spread())])


def case_one_of_two_is_killed(folder):
    pb = messages()
    serving_models.put(folder, "scale", serving_models.scale(2))
    x = numpy.ones((1, 4), numpy.float32)
    with Models(folder) as first, Models(folder) as second:
        clients = Spread(first, second)
        calls = 0
        while not (served(first) and served(second)):  # the second connection may come later
            assert (infer(clients, pb, "scale", x, "FP32") == 2 * x).all()
            calls += 1
        assert served(first) + served(second) == calls
        first.process.kill()
        for _ in range(20):
            assert (infer(clients, pb, "scale", x, "FP32") == 2 * x).all()
        clients.channel.close()


def case_kubernetes(folder):
    """The file's own arguments, with paths and ports of this machine."""
    pb = messages()
    with open(os.path.join(SOURCE, "cmake/service/kubernetes.yaml"), encoding="utf-8") as file:
        service, replicas = yaml.safe_load_all(file)
    pod = replicas["spec"]["template"]["spec"]
    container = pod["containers"][0]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert {each["name"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert service["spec"]["clusterIP"] == "None" and replicas["spec"]["serviceName"] == service["metadata"]["name"]
    labels = replicas["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == replicas["spec"]["selector"]["matchLabels"] == labels
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    options = dict(each[2:].split("=", 1) for each in container["args"])
    assert 2 * int(options["grace"]) < pod["terminationGracePeriodSeconds"]

    path = make_certificates(folder)
    serving_models.put(path("models"), "scale", serving_models.scale(2))
    with open(path("tokens"), "w", encoding="ascii") as file:
        file.write("alice one\n")
    places = {"/models": path("models"), "/secrets/cert.pem": path("server.pem"), "/secrets/key.pem": path("server.key"),
              "/secrets/tokens": path("tokens")}
    assert set(places) <= set(options.values())
    assert options["listen"] == f"0.0.0.0:{ports['grpc']}" and options["http"] == f"0.0.0.0:{ports['http']}"
    arguments = []
    for name, value in options.items():
        if name != "listen":
            value = "127.0.0.1:0" if name == "http" else places.get(value, value)
            arguments.append(f"--{name}={value}")
    trusted = ssl.create_default_context(cafile=path("ca.pem"))
    with Server(KILN, *arguments) as server:
        http = next(each for each in server.addresses if each.startswith("https"))
        for probe in ("livenessProbe", "startupProbe", "readinessProbe"):
            get = container[probe]["httpGet"]
            assert get["scheme"] == "HTTPS" and get["port"] == "http"
            # As the one that asks: without a token, until it says yes.
            assert any(probe_says_yes(http + get["path"], trusted) for _ in range(600 * PATIENCE)), probe
        with open(path("ca.pem"), "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        clients = type("Clients", (), {"channel": grpc.secure_channel(server.target, credentials)})
        call(clients, pb, "ModelMetadata", grpc.StatusCode.UNAUTHENTICATED, name="scale")
        clients.channel.close()


def probe_says_yes(url, trusted):
    try:
        with urllib.request.urlopen(url, context=trusted, timeout=60 * PATIENCE) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        time.sleep(0.1)  # until the next one
        return False


run_cases("unit/serving/replicas", [case_one_of_two_is_killed, case_kubernetes])
