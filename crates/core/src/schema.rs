//! Whether arguments fit a JSON schema that somebody else wrote: as much of the language as tools use. What is not known
//! here is left to whoever wrote it; nothing in a schema is run, fetched or followed far.

use serde_json::{Map, Value};
use std::cell::Cell;

/// How deep a schema may lead. A schema that refers to itself goes on as long as the arguments do, and those end.
const DEPTH_MAX: usize = 32;

/// How many rules are looked at. Alternatives that refer to themselves would double with every step.
const STEPS_MAX: u32 = 10_000;

/// Says what is wrong with a value, if anything is, and where.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    Checker { root: schema, steps: Cell::new(0) }.at("", schema, value, 0)
}

struct Checker<'a> {
    root: &'a Value,
    steps: Cell<u32>,
}

impl Checker<'_> {
    fn at(&self, path: &str, schema: &Value, value: &Value, depth: usize) -> Result<(), String> {
        self.steps.set(self.steps.get() + 1);
        if depth > DEPTH_MAX || self.steps.get() > STEPS_MAX {
            return Err(format!("{} is too deep", shown(path)));
        }
        let rules = match schema {
            Value::Bool(false) => return Err(format!("{} is not wanted", shown(path))),
            Value::Object(rules) => rules,
            _ => return Ok(()),
        };
        if let Some(found) = rules.get("$ref").and_then(Value::as_str).and_then(|to| self.resolve(to)) {
            self.at(path, found, value, depth + 1)?;
        }
        kind(path, rules, value)?;
        named(path, rules, value)?;
        bounds(path, rules, value)?;
        self.alternatives(path, rules, value, depth)?;
        match value {
            Value::Object(fields) => self.fields(path, rules, fields, depth),
            Value::Array(items) => self.items(path, rules, items, depth),
            _ => Ok(()),
        }
    }

    /// Only what stands in the same schema.
    fn resolve(&self, to: &str) -> Option<&Value> {
        self.root.pointer(to.strip_prefix('#')?)
    }

    fn alternatives(&self, path: &str, rules: &Map<String, Value>, value: &Value, depth: usize) -> Result<(), String> {
        let list = |name: &str| rules.get(name).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.at(path, schema, value, depth + 1)?;
        }
        for name in ["anyOf", "oneOf"] {
            let Some(schemas) = list(name) else { continue };
            let fitting = schemas.iter().filter(|schema| self.at(path, schema, value, depth + 1).is_ok()).count();
            if fitting == 0 || (name == "oneOf" && fitting > 1) {
                return Err(format!("{} fits {fitting} of the {} alternatives", shown(path), schemas.len()));
            }
        }
        Ok(())
    }

    fn fields(
        &self,
        path: &str,
        rules: &Map<String, Value>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let required = rules.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|name| !fields.contains_key(*name)) {
            return Err(format!("`{}` is missing", below(path, missing)));
        }
        let known = rules.get("properties").and_then(Value::as_object);
        let patterns = rules.contains_key("patternProperties");
        for (name, value) in fields {
            let here = below(path, name);
            match (known.and_then(|known| known.get(name)), rules.get("additionalProperties")) {
                (Some(schema), _) => self.at(&here, schema, value, depth + 1)?,
                (None, Some(Value::Bool(false))) if !patterns => return Err(format!("`{here}` is unknown")),
                (None, Some(schema)) if !patterns => self.at(&here, schema, value, depth + 1)?,
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn items(&self, path: &str, rules: &Map<String, Value>, items: &[Value], depth: usize) -> Result<(), String> {
        let Some(schema) = rules.get("items") else { return Ok(()) };

        let mut all = items.iter().enumerate();
        all.try_for_each(|(index, item)| self.at(&below(path, &index.to_string()), schema, item, depth + 1))
    }
}

fn kind(path: &str, rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let fits = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    };
    let (fitting, wanted) = match rules.get("type") {
        None => return Ok(()),
        Some(Value::Array(names)) => (names.iter().any(fits), Value::Array(names.clone())),
        Some(name) => (fits(name), name.clone()),
    };
    if fitting { Ok(()) } else { Err(format!("{} must be {}", shown(path), wanted.to_string().replace('"', ""))) }
}

fn named(path: &str, rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let wanted = match (rules.get("enum").and_then(Value::as_array), rules.get("const")) {
        (Some(all), _) if !all.contains(value) => Value::Array(all.clone()),
        (_, Some(only)) if only != value => only.clone(),
        _ => return Ok(()),
    };
    Err(format!("{} must be one of {wanted}", shown(path)))
}

fn bounds(path: &str, rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
    let (size, names) = match value {
        Value::String(text) => (text.chars().count() as f64, ["minLength", "maxLength"]),
        Value::Array(items) => (items.len() as f64, ["minItems", "maxItems"]),
        Value::Number(number) => (number.as_f64().unwrap_or(f64::NAN), ["minimum", "maximum"]),
        _ => return Ok(()),
    };
    let [least, most] = names;
    let outside = limit(least).is_some_and(|limit| size < limit)
        || limit(most).is_some_and(|limit| size > limit)
        || (value.is_number() && limit("exclusiveMinimum").is_some_and(|limit| size <= limit))
        || (value.is_number() && limit("exclusiveMaximum").is_some_and(|limit| size >= limit));
    if outside { Err(format!("{} is outside of its bounds", shown(path))) } else { Ok(()) }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn shown(path: &str) -> String {
    if path.is_empty() { "the whole".to_owned() } else { format!("`{path}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = json!({"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
            "path": {"type": "string", "minLength": 1}, "lines": {"type": ["integer", "null"], "minimum": 1},
            "mode": {"enum": ["r", "w"]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "inner": {"$ref": "#/$defs/inner"}, "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        }, "$defs": {"inner": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/inner"}}, "required": ["x"]}}});
        let fits = |value: Value| check(&schema, &value);
        assert_eq!(fits(json!({"path": "a", "lines": 3.0, "mode": "r", "tags": ["x"], "any": null})), Ok(()));
        assert_eq!(fits(json!({"path": "a", "inner": {"x": 1, "inner": {"x": 2}}})), Ok(()));
        for (wrong, said) in [
            (json!([]), "the whole must be object"),
            (json!({}), "`path` is missing"),
            (json!({"path": 1}), "`path` must be string"),
            (json!({"path": ""}), "`path` is outside"),
            (json!({"path": "a", "lines": 0}), "`lines` is outside"),
            (json!({"path": "a", "lines": 1.5}), "`lines` must be [integer,null]"),
            (json!({"path": "a", "mode": "x"}), "`mode` must be one of"),
            (json!({"path": "a", "tags": ["x", 1]}), "`tags.1` must be string"),
            (json!({"path": "a", "tags": ["x", "y", "z"]}), "`tags` is outside"),
            (json!({"path": "a", "more": 1}), "`more` is unknown"),
            (json!({"path": "a", "inner": {"x": 1, "inner": {}}}), "`inner.inner.x` is missing"),
            (json!({"path": "a", "any": 1}), "`any` fits 0 of the 2"),
        ] {
            let why = fits(wrong.clone()).expect_err(&wrong.to_string());
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }

    #[test]
    fn a_schema_that_leads_nowhere_ends() {
        let endless = json!({"$ref": "#"});
        assert!(check(&endless, &json!({})).is_err_and(|why| why.contains("too deep")));
        let doubling = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert!(check(&doubling, &json!({})).is_err());
        let nowhere = json!({"$ref": "http://example.org/schema", "items": 7, "required": "x", "properties": []});
        assert_eq!(check(&nowhere, &json!({"a": [1]})), Ok(()));
    }
}
