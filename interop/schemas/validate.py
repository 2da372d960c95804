"""Validates JSON files against official schemas: validate.py KIND FILE, with a KIND of SCHEMAS."""

import json
import pathlib
import sys

import jsonschema
import referencing

INSTALLED = pathlib.Path(__file__).parent / ".installed"
SCHEMAS = {
    "server": "skillsaw/schemas/mcp_registry/v2025_12_11/server.schema.json",
    "sbom": "cyclonedx/schema/_res/bom-1.6.SNAPSHOT.schema.json",
}


def resources(path):
    """Schemas that others refer to by their file names, as those of CycloneDX do."""
    for other in path.parent.glob("*.schema.json"):
        resource = referencing.Resource.from_contents(json.loads(other.read_text()))
        yield resource.id(), resource
        yield other.name, resource


kind, file = sys.argv[1:]
path = INSTALLED / SCHEMAS[kind]
schema = json.loads(path.read_text())
registry = referencing.Registry().with_resources(
    (name, resource) for name, resource in resources(path) if name
)
validator = jsonschema.validators.validator_for(schema)(
    schema, registry=registry, format_checker=jsonschema.FormatChecker()
)
problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(json.loads(open(file).read()))]
print("\n".join(problems[:20]) or "valid")
sys.exit(bool(problems))
