//! The whole description of the API, as the product serves it, does not change silently.

use crate::support::Instance;
use serde_json::Value;
use std::path::Path;

/// Set it to write the file anew after a change that was meant.
const RENEW: &str = "CHOIR_RENEW";

fn served() -> Value {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "hm"}]}}"#);
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("read"));
    let answer = instance.http("GET /api/openapi.json", &bearer, "");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn what_no_route_asks_for_is_refused_by_name_on_every_route() {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "hm"}]}}"#);
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("admin"));
    let answer = instance.http("GET /api/openapi.json", &bearer, "");
    let served: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let mut seen = 0;
    for (template, item) in served["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let path = filled(template);
            let line = format!("{} {path}", method.to_uppercase());
            let refused = instance.http(&format!("{line}?bogus_field=1"), &bearer, "");
            let named = refused.contains("`bogus_field`") && refused.contains("\"hint\"");
            assert!(refused.starts_with("HTTP/1.1 400") && named, "{line}: {refused}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                assert_eq!(parameter["in"] == "path", template.contains(&format!("{{{name}}}")), "{line}: {name}");
                if parameter["in"] == "query" && method == "get" {
                    let taken = instance.http(&format!("{line}?{name}=1"), &bearer, "");
                    assert!(!taken.contains("takes no"), "{line}: {taken}");
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} routes");
}

/// A path that a template describes, of a thing that is not there.
fn filled(template: &str) -> String {
    let id = "01890a5d-ac96-774b-bcce-b302099a8052";
    let hash = "0".repeat(64);
    [("{id}", id), ("{p}", id), ("{n}", "1"), ("{hash}", &hash), ("{name}", "task_request")]
        .iter()
        .fold(template.to_owned(), |path, (part, value)| path.replace(part, value))
}

/// A line for each route with what may stand behind its question mark.
fn queries(served: &Value) -> String {
    let paths = served["paths"].as_object().unwrap();
    let routes = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_query = parameters.filter(|parameter| parameter["in"] == "query");
            let names = in_query.map(|parameter| parameter["name"].as_str().unwrap().to_owned());
            let words: Vec<_> = [method.to_uppercase(), path.clone()].into_iter().chain(names).collect();
            format!("{}\n", words.join(" "))
        })
    });
    routes.collect()
}

fn is_kept(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control/generated").join(name);
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, text).expect("the checked-in file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} differs. If that is meant: {RENEW}=1 cargo test -p choir description");
}

#[test]
fn the_description_is_what_is_checked_in() {
    let served = served();
    let text = format!("{served:#}\n");
    is_kept("openapi.json", &text);
    is_kept("queries.txt", &queries(&served));

    let paths = served["paths"].as_object().unwrap();
    for path in [
        "/health",
        "/api/runs",
        "/api/runs/{id}/steer",
        "/api/tasks",
        "/api/events",
        "/api/stream",
        "/api/documents/{id}",
        "/api/files",
        "/api/terminals/{id}",
        "/api/inbox/{id}",
        "/api/settings",
        "/api/supervision",
        "/api/blobs/{hash}",
        "/api/schemas/{name}",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    // Every reference leads somewhere.
    let schemas = served["components"]["schemas"].as_object().unwrap();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "the schema `{name}` is missing");
    }
    // What changes something says what it takes.
    for (path, item) in paths {
        for method in ["put", "post"] {
            let takes_nothing = [
                "/accept",
                "/cancel",
                "/pause",
                "/resume",
                "/test",
                "/erase",
                "/undo",
                "/rerun",
                "/reopen",
                "/checkpoints",
                "/plug",
                "}/trash",
                "}/restore",
            ];
            if item[method].is_object() && !takes_nothing.iter().any(|end| path.ends_with(end)) {
                assert!(item[method]["requestBody"].is_object(), "{method} {path} does not say what it takes");
            }
        }
    }
}

/// Whoever reads the codes need not know which process answers a route.
#[test]
fn one_kind_of_mistake_has_one_code_on_every_route() {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "no"}]}}"#);
    let headers = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("admin"));
    let code = |line: &str, body: &str| {
        let answer = instance.http(line, &headers, body);
        let error: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_default();
        (answer.split(' ').nth(1).unwrap().to_owned(), error["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let routes = [
        "POST /api/runs",
        "POST /api/tasks",
        "POST /api/documents",
        "POST /api/desktop",
        "POST /api/artifacts",
        "POST /api/terminals",
        "POST /api/tours",
        "PUT /api/settings",
        "PUT /api/providers/mine",
    ];
    for route in routes {
        for (body, wanted) in [(r#"{"colour": 1}"#, "bad_field"), ("[]", "bad_field"), ("{", "bad_json")] {
            assert_eq!(code(route, body), ("400".to_owned(), wanted.to_owned()), "{route} {body}");
        }
    }
    for question in ["/api/events?colour=1", "/api/events?after=x", "/api/runs?limit=x", "/api/files?colour=1"] {
        assert_eq!(code(&format!("GET {question}"), ""), ("400".to_owned(), "bad_field".to_owned()), "{question}");
    }
}
