//! The description of control's routes is complete.

use std::collections::BTreeSet;

/// The routes, as they stand where they are registered.
const ROUTER: &str = include_str!("../src/http/mod.rs");

#[test]
fn every_registered_route_is_described() {
    let description = serde_json::to_value(choir_control::http::openapi(Default::default())).unwrap();
    let lines = ROUTER.lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
    let mut seen = 0;
    for line in lines {
        let (path, handlers) = line.split_once("\", ").unwrap();
        // The desktop's page and everything that a computer describes itself.
        if path == "/" || path == "/api/{*rest}" {
            continue;
        }
        let methods = ["get", "put", "post", "delete"];
        for method in methods.iter().filter(|method| handlers.contains(&format!("{method}("))) {
            assert!(description["paths"][path][method].is_object(), "{method} {path}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} routes were found");
}

#[test]
fn operations_have_names_of_their_own_and_say_how_they_are_refused() {
    let description = serde_json::to_value(choir_control::http::openapi(Default::default())).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} stands twice");
            if path.starts_with("/api/") {
                let schema = &operation["responses"]["401"]["content"]["application/json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/ApiError", "{method} {path}");
            }
        }
    }
}
