//! What may stand behind the question mark: what the description of a route says, and nothing else. A name that is not
//! understood is refused here for every route, control's own and the computer's.

use super::error::Refused;
use super::extract::what_is_wrong;
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, Uri};
use std::sync::Arc;

/// One line for each described route: its method, its path and the names that it takes. A test compares it with the description,
/// which is not made at a start: it takes megabytes that a process would keep.
const ROUTES: &str = include_str!("../../generated/queries.txt");

/// The names that each described route takes.
#[derive(Debug)]
pub(super) struct Queries(Vec<Route>);

#[derive(Debug)]
struct Route {
    method: Method,
    path: &'static str,
    names: Vec<&'static str>,
}

impl Queries {
    /// As described.
    pub(super) fn described() -> Self {
        Self(ROUTES.lines().filter_map(route).collect())
    }

    /// Refuses a name that the route does not take. A route that is not described is somebody else's to refuse.
    fn check(&self, method: &Method, uri: &Uri) -> Result<(), Refused> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let takes = |route: &&Route| route.method == *method && is_at(route.path, uri.path());
        let Some(route) = self.0.iter().find(takes) else { return Ok(()) };
        let asked: Result<Query<Vec<(String, String)>>, _> = Query::try_from_uri(uri);
        let hint = route.hint();
        let Query(asked) = asked.map_err(|error| Refused::bad_field(what_is_wrong(&error), &hint))?;
        match asked.iter().find(|(name, _)| !route.names.contains(&name.as_str())) {
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

fn route(line: &'static str) -> Option<Route> {
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.parse().ok()?, words.next()?);
    Some(Route { method, path, names: words.collect() })
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
    fn every_line_is_a_route() {
        assert_eq!(Queries::described().0.len(), ROUTES.lines().count());
    }

    #[test]
    fn templates_describe_paths_of_their_own_length() {
        assert!(is_at("/api/runs/{id}", "/api/runs/1") && is_at("/health", "/health"));
        for path in ["/api/runs", "/api/runs/", "/api/runs/1/trace", "/api/tasks/1"] {
            assert!(!is_at("/api/runs/{id}", path), "{path}");
        }
    }
}
