"""Prints the software bill of materials of the program, as CycloneDX 1.6: every crate that is
compiled into it or runs while it is built, with licence, checksum and dependencies.

Usage: sbom.py VERSION TARGET, in the root of the repository. Needs cargo and the crates' sources.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, capture_output=True, text=True).stdout


def reference(name, version):
    return f"pkg:cargo/{name}@{version}"


def read_tree(target):
    """Returns the crates of the program in the order of the tree, and the dependencies of each.

    `cargo tree` knows the features the program is built with; `cargo metadata` only those of the
    whole workspace together.
    """
    lines = cargo(
        "tree", "--locked", "--package", "mcp-flow-cli", "--edges", "normal,build", "--target", target,
        "--prefix", "depth", "--format", "\t{p}",
    )  # fmt: skip
    crates, above = {}, []
    for line in lines.splitlines():
        depth, text = line.split("\t")
        name, version = re.match(r"(\S+) v(\S+)", text).groups()
        one = (name, version)
        # A crate is expanded once; elsewhere it is marked (*), without its dependencies.
        crates.setdefault(one, set())
        above = above[: int(depth)] + [one]
        if len(above) > 1:
            crates[above[-2]].add(one)
    return crates


def read_metadata(target):
    """Returns the manifest of each crate, by name and version."""
    text = cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target)
    return {(one["name"], one["version"]): one for one in json.loads(text)["packages"]}


def read_checksums():
    with open("Cargo.lock", "rb") as file:
        return {(one["name"], one["version"]): one.get("checksum") for one in tomllib.load(file)["package"]}


def describe(crate, manifest, checksum):
    name, version = crate
    component = {"type": "library", "name": name, "version": version, "purl": reference(name, version)}
    component["bom-ref"] = reference(name, version)
    if manifest["description"]:
        component["description"] = " ".join(manifest["description"].split())
    if manifest["license"]:
        # Cargo used to separate alternatives by a slash, which SPDX does not.
        component["licenses"] = [{"expression": manifest["license"].replace("/", " OR ")}]
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if (manifest["repository"] or "").startswith("https://"):
        component["externalReferences"] = [{"type": "vcs", "url": manifest["repository"]}]
    return component


def main():
    version, target = sys.argv[1:]
    crates, manifests, checksums = read_tree(target), read_metadata(target), read_checksums()
    program, *libraries = crates
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    components = [describe(one, manifests[one], checksums.get(one)) for one in sorted(libraries)]
    dependencies = [
        {"ref": reference(*one), "dependsOn": sorted(reference(*other) for other in crates[one])}
        for one in sorted(crates)
    ]
    # Equal content has an equal number, so that builds can be compared.
    content = json.dumps([version, target, components, dependencies])
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "name": "mcp-flow",
                "version": version,
                "bom-ref": reference(*program),
                "licenses": [{"expression": manifests[program]["license"]}],
            },
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": components,
        "dependencies": dependencies,
    }
    json.dump(bom, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
