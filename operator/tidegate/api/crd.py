"""The CustomResourceDefinition of LLMDeployment, made from the models and from nothing else."""

from typing import Any

import yaml

from tidegate.api import llmdeployment, schema
from tidegate.api.llmdeployment import LLMDeployment
from tidegate.api.schema import Schema

FILE_NAME = f"{llmdeployment.GROUP}_{llmdeployment.PLURAL}.yaml"
_HEADER = "# Generated from operator/tidegate/api by scripts/generate; do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Writes every value out: kubectl reads anchors, people do not."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write `&id001` and `*id001`."""
        return True


def generate() -> str:
    """Return the CustomResourceDefinition as YAML; the same text for the same models."""
    body = yaml.dump(definition(), Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    return f"{_HEADER}{body}"


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition as a document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{llmdeployment.PLURAL}.{llmdeployment.GROUP}"},
        "spec": {
            "group": llmdeployment.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": llmdeployment.KIND,
                "listKind": f"{llmdeployment.KIND}List",
                "plural": llmdeployment.PLURAL,
                "singular": llmdeployment.KIND.lower(),
                "shortNames": LLMDeployment.short_names,
                "categories": LLMDeployment.categories,
            },
            "versions": [
                {
                    "name": llmdeployment.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": LLMDeployment.printer_columns,
                    "schema": {"openAPIV3Schema": _ordered(kind_schema())},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def kind_schema() -> Schema:
    """Return the structural schema of the whole kind."""
    root = schema.structural(LLMDeployment)
    properties = root["properties"]
    for name in ("apiVersion", "kind"):  # the API server itself checks these two
        properties[name] = {"type": "string", "description": properties[name]["description"]}
    properties["metadata"] = {"type": "object"}  # all else is implied, and refused here
    root["required"] = ["spec"]
    return root


def _ordered(node: Schema) -> Schema:
    """Sort the keywords of a schema; its properties keep the order of the fields."""
    result: Schema = {key: node[key] for key in sorted(node)}
    if "properties" in node:
        result["properties"] = {name: _ordered(s) for name, s in node["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            result[keyword] = _ordered(node[keyword])
    return result
