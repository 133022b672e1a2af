"""What is deployed with the collector is what the code expects: options, ports, probes, attributes left out."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from otel_agent_replay_collector.options import CollectorOptions

from otel_agent_replay import semconv
from otel_agent_replay.cli.main import COMMANDS

FOLDER = Path(__file__).parents[2] / "collector"
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
PIPELINES = sorted(FOLDER.glob("otel-collector*.yaml"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def loaded(text, tmp_path):
    file = tmp_path / "collector.toml"
    file.write_text(text)
    return CollectorOptions.load(file=file, environment={})


def manifest(kind):
    return next(one for path in MANIFESTS for one in documents(path) if one["kind"] == kind)


def test_the_example_of_options_is_understood(tmp_path):
    """Also with every line that is commented out."""
    text = (FOLDER / "collector.toml").read_text(encoding="utf-8")
    assert loaded(text, tmp_path).keep_rate == 0.1
    everything = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    assert str(loaded(everything, tmp_path).tls_client_ca) == "/etc/agent-replay/tls/ca.crt"


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_each_pipeline_of_the_opentelemetry_collector_uses_what_is_declared(path):
    """Every part that a pipeline names is there, and none is there for nothing."""
    (config,) = documents(path)
    used = {"extensions": set(config["service"].get("extensions", ()))}
    for pipeline in config["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            used.setdefault(part, set()).update(pipeline[part])
    for part, names in used.items():
        assert names == set(config.get(part, {})), part


def test_the_backend_gets_no_attribute_that_holds_contents():
    """What is deleted on its way are exactly the heavy attributes of `semconv`; both pipelines get the same spans."""
    (config,) = documents(FOLDER / "otel-collector.yaml")
    (group,) = config["processors"]["transform/light"]["trace_statements"]
    deleted = [re.fullmatch(r'delete_key\(attributes, "(.+)"\)', line)[1] for line in group["statements"]]
    assert sorted(deleted) == sorted(semconv.HEAVY)
    pipelines = config["service"]["pipelines"]
    backend = pipelines["traces/backend"]["processors"]
    assert backend.index("transform/light") < backend.index("tail_sampling/backend") < backend.index("batch/backend")
    assert "transform/light" not in pipelines["traces/replay"]["processors"]
    assert pipelines["traces/backend"]["receivers"] == pipelines["traces/replay"]["receivers"]
    (pieces,) = config["processors"]["filter/pieces"]["traces"]["span"]
    assert f'"{semconv.PART}"' in pieces
    assert semconv.FLAGGED in str(config["processors"]["tail_sampling/backend"])


def test_sizes_along_the_way_are_those_of_the_receiver():
    """What a Collector takes, the receiver takes."""
    most = CollectorOptions.load({}, environment={}).max_request_mb
    for path in PIPELINES:
        (config,) = documents(path)
        for protocol in config["receivers"].get("otlp", {}).get("protocols", {}).values():
            size = protocol.get("max_recv_msg_size_mib", protocol.get("max_request_body_size", 0) >> 20)
            assert size == most


def test_the_manifests_agree_with_each_other_and_with_the_options(tmp_path):
    """Ports, probes, paths, labels; the options in the config map are understood."""
    receiver, service, options = manifest("StatefulSet"), manifest("Service"), manifest("ConfigMap")
    given = loaded(options["data"]["collector.toml"], tmp_path)
    (container,) = receiver["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"otlp-grpc": given.grpc.port, "otlp-http": given.http.port}
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports
    assert {port["port"] for port in manifest("NetworkPolicy")["spec"]["ingress"][0]["ports"]} == set(ports.values())
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == ("/readyz" if probe == "readinessProbe" else "/healthz")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(given.folder) in mounts
    assert str(given.token_file.parent) in mounts
    labels = receiver["spec"]["template"]["metadata"]["labels"]
    assert receiver["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    pod = receiver["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= given.drain_s + 30  # the sealer's patience
    volumes = {volume["name"] for volume in pod["volumes"]} | {
        claim["metadata"]["name"] for claim in receiver["spec"]["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_nightly_work_calls_commands_that_there_are():
    """With the volume of the stateful set."""
    job = manifest("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = job["containers"]
    for command in container["command"][-1].split("&&"):
        words = shlex.split(command)
        assert words[0] == "agent-replay"
        assert words[1] in COMMANDS
    claims = {
        volume["persistentVolumeClaim"]["claimName"] for volume in job["volumes"] if "persistentVolumeClaim" in volume
    }
    assert claims == {"lake-agent-replay-0"}


def test_the_container_file_sets_options_that_there_are():
    """And starts the command that there is, as nobody's user."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    names = {name.lower() for name in re.findall(r"AGENT_REPLAY_COLLECTOR_(\w+)=", text)}
    assert names == {"lake", "http", "grpc"} <= set(CollectorOptions.options())
    assert 'ENTRYPOINT ["agent-replay", "collector"]' in text
    assert "USER 10001" in text


def test_every_file_of_the_folder_is_in_its_readme():
    """So that nobody has to guess what a file is for."""
    for path in [*PIPELINES, FOLDER / "collector.toml", FOLDER / "Containerfile"]:
        assert path.name in README, path.name
