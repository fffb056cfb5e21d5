"""schemas.py: whether JSON is as the schemas in docs/json say, as far as these use JSON Schema."""
import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/json")
KINDS = {"string": str, "integer": int, "number": (int, float), "array": list, "object": dict, "null": type(None),
         "boolean": bool}


def mistakes(value, schema, where):
    """What is wrong with the value, one text for each mistake."""
    if "anyOf" in schema:
        found = [mistakes(value, each, where) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, KINDS[kind]) and (isinstance(value, bool) == (kind == "boolean"))
                          for kind in wanted):
        return [f"{where}: {value!r} is no {wanted}"]
    if "enum" in schema and value not in schema["enum"] or value is not None and "minimum" in schema and value < 0:
        return [f"{where}: {value!r}"]
    found = []
    if isinstance(value, dict):
        properties = schema["properties"]
        found += [f"{where}: {key} is not there" for key in schema["required"] if key not in value]
        found += [f"{where}: docs/json does not know {key}" for key in value if key not in properties]
        for key in value.keys() & properties.keys():
            found += mistakes(value[key], properties[key], f"{where}.{key}")
    for i, each in enumerate(value if isinstance(value, list) else []):
        found += mistakes(each, schema["items"], f"{where}[{i}]")
    return found


def schema_of(name):
    with open(f"{FOLDER}/{name}.schema.json", encoding="utf-8") as file:
        return json.load(file)
