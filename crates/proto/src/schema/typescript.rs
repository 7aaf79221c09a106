//! JSON schemas as TypeScript types.

use serde_json::{Map, Value};

/// One exported type for each definition.
pub fn typescript(definitions: &Map<String, Value>) -> String {
    let mut text =
        String::from("// Generated from the types of `choir-proto`. The test that compares it says how to renew it.\n");
    for (name, schema) in definitions {
        if let Some(description) = schema["description"].as_str() {
            text.push_str(&format!("\n/** {} */\n", description.replace("*/", "* /").replace('\n', " ")));
        } else {
            text.push('\n');
        }
        text.push_str(&format!("export type {name} = {};\n", render(schema)));
    }
    text
}

fn render(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or("unknown").to_owned();
    }
    for (word, glue) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(choices) = schema[word].as_array() {
            return choices.iter().map(|choice| parenthesised(render(choice))).collect::<Vec<_>>().join(glue);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(name) => plain(name, schema),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(|name| plain(name, schema)).collect::<Vec<_>>().join(" | ")
        }
        _ => "unknown".into(),
    }
}

fn plain(name: &str, schema: &Value) -> String {
    match name {
        "string" => "string".into(),
        "integer" | "number" => "number".into(),
        "boolean" => "boolean".into(),
        "null" => "null".into(),
        "array" => format!("{}[]", parenthesised(render(&schema["items"]))),
        "object" => object(schema),
        _ => "unknown".into(),
    }
}

fn object(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("Record<string, {}>", render(values)),
            _ => "Record<string, unknown>".into(),
        };
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = properties.iter().map(|(name, schema)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{name}{mark}: {}", render(schema))
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join("; "))
}

fn parenthesised(text: String) -> String {
    if text.contains(" | ") || text.contains(" & ") { format!("({text})") } else { text }
}
