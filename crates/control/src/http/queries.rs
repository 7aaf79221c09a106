//! What may stand behind the question mark: what the description of a route says, and nothing else. A name that is not
//! understood is refused here for every route, control's own and the computer's.

use super::error::Refused;
use super::extract::what_is_wrong;
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, Uri};
use std::sync::Arc;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

/// The names that each described route takes.
#[derive(Debug)]
pub(super) struct Queries(Vec<Route>);

#[derive(Debug)]
struct Route {
    method: Method,
    path: String,
    names: Vec<String>,
}

impl Queries {
    /// As described.
    pub(super) fn of(description: &OpenApi) -> Self {
        let items = description.paths.paths.iter();
        Self(items.flat_map(|(path, item)| routes(path, item)).collect())
    }

    /// Refuses a name that the route does not take. A route that is not described is somebody else's to refuse.
    fn check(&self, method: &Method, uri: &Uri) -> Result<(), Refused> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let takes = |route: &&Route| route.method == *method && is_at(&route.path, uri.path());
        let Some(route) = self.0.iter().find(takes) else { return Ok(()) };
        let asked: Result<Query<Vec<(String, String)>>, _> = Query::try_from_uri(uri);
        let hint = route.hint();
        let Query(asked) = asked.map_err(|error| Refused::bad_field(what_is_wrong(&error), &hint))?;
        match asked.iter().find(|(name, _)| !route.names.contains(name)) {
            Some((name, _)) => Err(Refused::bad_field(format!("This request takes no `{name}`."), hint)),
            None => Ok(()),
        }
    }
}

impl Route {
    fn hint(&self) -> String {
        match self.names.as_slice() {
            [] => "Nothing may stand behind a question mark here.".to_owned(),
            names => format!("Behind the question mark it takes {}.", names.join(", ")),
        }
    }
}

/// The middleware.
pub(super) async fn check(
    State(queries): State<Arc<Queries>>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    if request.uri().query().is_some() {
        queries.check(request.method(), request.uri())?;
    }
    Ok(next.run(request).await)
}

fn routes(path: &str, item: &PathItem) -> Vec<Route> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
    ];
    let described = all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)));
    described.map(|(method, operation)| Route { method, path: path.to_owned(), names: names(operation) }).collect()
}

fn names(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        _ => None,
    });
    in_query.collect()
}

/// Whether a path is the one that a template like `/api/runs/{id}` describes.
fn is_at(template: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == found || (wanted.starts_with('{') && !found.is_empty()) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_describe_paths_of_their_own_length() {
        assert!(is_at("/api/runs/{id}", "/api/runs/1") && is_at("/health", "/health"));
        for path in ["/api/runs", "/api/runs/", "/api/runs/1/trace", "/api/tasks/1"] {
            assert!(!is_at("/api/runs/{id}", path), "{path}");
        }
    }
}
