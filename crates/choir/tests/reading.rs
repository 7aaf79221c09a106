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
    assert!(
        names.into_iter().all(|name| !name.to_string_lossy().starts_with(".choir-page")),
        "what was read stays out of the workspace"
    );
    // No other way out than none: the sandbox asked for nothing, and control's own fetch is all there is.
    let reached: Vec<Value> = instance.events().into_iter().filter(|event| event["kind"] == "egress.allowed").collect();
    assert_eq!(reached.len(), 1, "{reached:?}");
}

/// Pages whose letters are not ours: by what the server says, by what the page says, and without a word.
#[test]
fn pages_in_other_letters_are_read_as_they_were_written() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let heard = stream.read(&mut asked).unwrap_or(0);
            let (kind, body): (&str, &[u8]) = match String::from_utf8_lossy(&asked[..heard]).split(' ').nth(1) {
                Some("/header") => ("text/html; charset=windows-1251", b"<p>\xcf\xf0\xe8\xe2\xe5\xf2</p>"),
                Some("/meta") => ("text/html", b"<meta charset=shift_jis><p>\x93\xfa\x96\x7b</p>"),
                _ => ("text/plain; charset=iso-8859-1", b"caf\xe9"),
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", body.len());
            stream.write_all(&[head.as_bytes(), b"connection: close\r\n\r\n", body].concat()).ok();
        }
    });
    let config = format!("\n[egress]\nceiling = [\"127.0.0.1:{port}\"]\n");
    let instance = Instance::start_with(r#"{"roles": {"conductor": [{"text": "no"}]}}"#, &config);
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("admin"));
    for (path, text) in [("header", "Привет\n"), ("meta", "日本\n"), ("plain", "café")] {
        let url = serde_json::json!({"url": format!("http://127.0.0.1:{port}/{path}")});
        let (status, artifact) = instance.api("POST /api/artifacts", &url);
        assert_eq!(status, 201, "{artifact}");
        let kept = instance.http(&format!("GET /api/blobs/{}", artifact["text"].as_str().unwrap()), &bearer, "");
        assert_eq!(kept.split_once("\r\n\r\n").unwrap().1, text, "{path}");
    }
}

#[test]
fn a_page_that_does_not_come_says_whose_fault_that_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let heard = stream.read(&mut [0; 4096]);
            heard.and_then(|_| stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")).ok();
        }
    });
    let config = format!("\n[egress]\nceiling = [\"127.0.0.1:{port}\"]\n");
    let instance = Instance::start_with(r#"{"roles": {"conductor": [{"text": "no"}]}}"#, &config);
    let gone = format!("http://127.0.0.1:{port}/");
    for (url, wanted) in [("nonsense", 400), ("ftp://x.example/", 400), ("http://127.0.0.1:1/", 403), (&gone, 502)] {
        let (status, refused) = instance.api("POST /api/artifacts", &serde_json::json!({"url": url}));
        assert_eq!((status, &refused["error"]["code"]), (wanted, &"not_fetched".into()), "{url}: {refused}");
    }
}

/// A PDF of these objects, numbered from 1, the first being its catalogue.
fn pdf(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (object, number) in objects.iter().zip(1..) {
        places.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n").bytes().chain(object.iter().copied()).chain(*b"\nendobj\n"));
    }
    let table = bytes.len();
    let size = objects.len() + 1;
    bytes.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    places.iter().for_each(|place| bytes.extend(format!("{place:010} 00000 n \n").bytes()));
    bytes.extend(format!("trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n").bytes());
    bytes
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<< {dictionary} /Length {} >>\nstream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

/// One page with this content, and `more` objects from the sixth on.
fn sheet(content: Vec<u8>, more: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R \
          /Resources << /Font << /F1 4 0 R >> /XObject << /X 6 0 R >> >> >>"
            .to_vec(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
        content,
    ];
    objects.extend_from_slice(more);
    pdf(&objects, trailer)
}

const WORDS: &[u8] = b"BT /F1 12 Tf 72 720 Td (Herons wade in slow water.) Tj ET";

fn good() -> Vec<u8> {
    sheet(stream("", WORDS), &[], "")
}

/// A form that draws itself.
fn endless() -> Vec<u8> {
    let form = "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>";
    sheet(stream("", b"/X Do"), &[stream(form, b"/X Do")], "")
}

fn locked() -> Vec<u8> {
    let (owner, user) = ("ab".repeat(32), "cd".repeat(32));
    let lock = format!("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{owner}> /U <{user}> >>");
    sheet(stream("", WORDS), &[lock.into_bytes()], "/Encrypt 6 0 R /ID [<00> <00>]")
}

/// A gigabyte of nothing in a megabyte: what says a megabyte of it again, a thousand times.
fn bomb() -> Vec<u8> {
    let nothing = vec![b' '; 1 << 20];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&nothing).and_then(|()| packed.flush()).unwrap();
    let first = packed.get_ref().len();
    packed.write_all(&nothing).and_then(|()| packed.flush()).unwrap();
    let (first, again) = packed.get_ref().split_at(first);
    sheet(stream("/Filter /FlateDecode", &[first, &again.repeat(1000)].concat()), &[], "")
}

/// What the reader makes of bytes, outside of any sandbox: its exit code, what it printed and what it complained of.
fn read_pdf(bytes: &[u8]) -> (Option<i32>, String, String) {
    let mut reader = std::process::Command::new(env!("CARGO_BIN_EXE_choir"))
        .args(["page", "pdf"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // A reader that has given up reads no further.
    reader.stdin.take().unwrap().write_all(bytes).ok();
    let ended = reader.wait_with_output().unwrap();
    (ended.status.code(), stdout(&ended), crate::support::stderr(&ended))
}

#[test]
fn a_pdf_is_read_and_a_hostile_one_says_why_not() {
    let (code, text, _) = read_pdf(&good());
    assert_eq!((code, text.trim()), (Some(0), "Herons wade in slow water."));
    let whole = good();
    let loop_of_pages = pdf(
        &[b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(), b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>".to_vec()],
        "",
    );
    for (name, bytes, why) in [
        ("cut off", whole[..whole.len() / 2].to_vec(), "it is broken"),
        ("no PDF at all", b"%PDF-1.4 and nothing more".to_vec(), "it is broken"),
        ("empty", Vec::new(), "it is broken"),
        ("locked", locked(), "locked with a password"),
        ("only a picture", sheet(stream("", b"0 0 9 9 re f"), &[], ""), "no text"),
        ("pages of pages", loop_of_pages, "no text"),
    ] {
        let (code, text, said) = read_pdf(&bytes);
        assert_eq!((code, text.as_str()), (Some(1), ""), "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
    }
    // Ended by a signal, which the sandbox tells its caller; and never with more memory than it may have.
    assert_eq!(read_pdf(&endless()).0, None);
    assert_eq!(read_pdf(&bomb()).0, None);
}

#[test]
fn what_is_brought_in_is_parsed_in_a_sandbox_and_can_be_cited_by_its_text() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "researcher", "objective": "{{prompt}}"}}]},
            {"tool_calls": [{"name": "answer", "arguments": {"text": "{{last_result.summary}}"}},
                            {"name": "finish", "arguments": {"summary": "read"}}]}],
        "researcher": [
            {"tool_calls": [{"name": "cite", "arguments": {"source": "{{prompt}}", "quote": "Herons wade in slow water."}}]},
            {"tool_calls": [{"name": "cite", "arguments": {"source": "{{prompt}}", "quote": "Herons wade in fast water."}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{results}}"}}]}]}}"#;
    let instance = Instance::start(scenario);
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("admin"));
    let import = |kind: &str, bytes: &[u8]| -> Value {
        let headers = format!("{bearer}content-type: {kind}\r\n");
        let answer = instance.http("POST /api/artifacts", &headers, std::str::from_utf8(bytes).unwrap());
        let artifact: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert!(artifact["artifact_id"].is_string(), "{artifact}");
        artifact
    };
    let whole = good();
    for (kind, bytes) in [("application/pdf", whole.as_slice()), ("text/html", b"<p>Herons <b>wade</b> in slow water.")]
    {
        let artifact = import(kind, bytes);
        let (id, text) = (artifact["artifact_id"].as_str().unwrap(), &artifact["text"]);
        let run = instance.choir(&["run", id]);
        let said = stdout(&run);
        assert_eq!(run.status.code(), Some(0), "{said}");
        assert!(said.contains("Found in") && said.contains("do not stand in"), "{said}");
        let made = instance.events().into_iter().rfind(|event| event["kind"] == "citation.made").unwrap();
        assert_eq!((&made["payload"]["source"], &made["payload"]["artifact_id"]), (text, &artifact["artifact_id"]));
        let (from, to) = (made["payload"]["from"].as_u64().unwrap(), made["payload"]["to"].as_u64().unwrap());
        let source = instance.http(&format!("GET /api/blobs/{}", text.as_str().unwrap()), &bearer, "");
        let source = source.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(&source[from as usize..to as usize], "Herons wade in slow water.");
    }
    for (bytes, why) in [(locked(), "locked with a password"), (endless(), "it broke its reader")] {
        let artifact = import("application/pdf", &bytes);
        assert!(artifact["text"].is_null() && artifact["content_hash"].is_string(), "{artifact}");
        assert!(artifact["unreadable"].as_str().unwrap().contains(why), "{artifact}");
    }
    let left: Vec<Value> = instance.events().into_iter().filter(|event| event["kind"] == "egress.allowed").collect();
    assert!(left.is_empty(), "nothing was reached: {left:?}");
}

#[test]
fn a_file_is_a_source_as_it_was_before_the_run_and_not_as_the_run_made_it() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "read"}}]},
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "researcher", "objective": "cite"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}],
        "terminal": [
            {"tool_calls": [{"name": "bash", "arguments": {"command": "echo Herons eat cheese. > own; mkdir deep; ln -s .. deep/up"}}]},
            {"tool_calls": [{"name": "read_file", "arguments": {"path": "own"}},
                            {"name": "read_file", "arguments": {"path": "deep/up/own"}},
                            {"name": "read_file", "arguments": {"path": "theirs"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "read"}}]}],
        "researcher": [
            {"tool_calls": [{"name": "read_file", "arguments": {"path": "own"}}]},
            {"tool_calls": [{"name": "cite", "arguments": {"source": "output", "quote": "Herons eat cheese."}},
                            {"name": "cite", "arguments": {"source": "output", "quote": "Herons wade in slow water."}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "cited"}}]}]}}"#;
    let instance = Instance::start(scenario);
    std::fs::write(instance.workspace().join("theirs"), "Herons wade in slow water.\n").unwrap();
    let run = instance.choir(&["run", "cite"]);
    assert_eq!(run.status.code(), Some(0), "{}", stdout(&run));
    let made = instance.events().into_iter().filter(|event| event["kind"] == "citation.made");
    let quotes: Vec<Value> = made.map(|event| event["payload"]["quote"].clone()).collect();
    assert_eq!(quotes, [Value::from("Herons wade in slow water.")]);
}
