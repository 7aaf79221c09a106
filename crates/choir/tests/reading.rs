//! What a researcher reads: pages are parsed in its own sandbox, and files are those of the workspace.

use crate::support::{Instance, stdout};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;

const PAGE: &str = "<head><title>x</title></head><h1>Herons</h1><script>steal()</script><p>They <b>wade</b>.</p>";

/// A server of one page.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let heard = stream.read(&mut asked);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n", PAGE.len());
            heard.and_then(|_| stream.write_all(format!("{head}connection: close\r\n\r\n{PAGE}").as_bytes())).ok();
        }
    });
    port
}

#[test]
fn a_page_is_parsed_in_a_sandbox_and_a_file_is_read_and_nothing_of_both_comes_home() {
    let port = page();
    let scenario = format!(
        r#"{{"roles": {{
        "conductor": [
            {{"tool_calls": [{{"name": "delegate", "arguments": {{"role": "researcher", "objective": "read"}}}}]}},
            {{"tool_calls": [{{"name": "answer", "arguments": {{"text": "{{{{last_result.summary}}}}"}}}},
                             {{"name": "finish", "arguments": {{"summary": "read"}}}}]}}],
        "researcher": [
            {{"tool_calls": [{{"name": "fetch_url", "arguments": {{"url": "http://127.0.0.1:{port}/"}}}},
                             {{"name": "read_file", "arguments": {{"path": "notes.md"}}}}]}},
            {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "{{{{results}}}}"}}}}]}}]
        }}}}"#
    );
    let config = format!("\n[egress]\nceiling = [\"127.0.0.1:{port}\"]\n");
    let instance = Instance::start_with(&scenario, &config);
    std::fs::write(instance.workspace().join("notes.md"), "Wrens sing.\n").unwrap();
    let run = instance.choir(&["run", "read both"]);
    assert_eq!(run.status.code(), Some(0), "{}", stdout(&run));
    let said = stdout(&run);
    assert!(said.contains("Herons") && said.contains("They wade.") && said.contains("Wrens sing."), "{said}");
    assert!(!said.contains("steal"), "{said}");
    let names = std::fs::read_dir(instance.workspace()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| name != ".choir-page"), "what was read stays out of the workspace");
    // No other way out than none: the sandbox asked for nothing, and control's own fetch is all there is.
    let reached: Vec<Value> = instance.events().into_iter().filter(|event| event["kind"] == "egress.allowed").collect();
    assert_eq!(reached.len(), 1, "{reached:?}");
}
