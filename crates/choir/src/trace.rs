//! `choir trace`: what a run did, as a tree with times and cost.

use crate::cli::Trace as Arguments;
use crate::{instance, output};
use choir_proto::trace::{Span, SpanKind, Trace};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Columns for the tree; what took how long stands to the right of it.
const TREE_COLUMNS: usize = 76;

pub(crate) async fn trace(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = instance::connect(&arguments.reach).await?;
    let trace: Trace = client.get(&format!("/api/runs/{}/trace", arguments.run)).await?;
    if arguments.json {
        output::json(&trace)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in lines(&trace) {
        output::line(line)?;
    }
    if trace.truncated {
        output::tell(format_args!("The run did more than is shown here; `choir events` has all of it."));
    }
    Ok(ExitCode::SUCCESS)
}

/// The tree, one line for each span, children under their parents.
fn lines(trace: &Trace) -> Vec<String> {
    let mut children: BTreeMap<Option<&str>, Vec<&Span>> = BTreeMap::new();
    for span in &trace.spans {
        children.entry(span.parent.as_deref()).or_default().push(span);
    }
    let mut lines = Vec::with_capacity(trace.spans.len());
    // A stack instead of recursion: how deep a run goes is not ours to decide.
    let mut waiting = below(&children, None, "");
    while let Some(Place { span, indent, is_last }) = waiting.pop() {
        let (branch, further) = match (span.parent.is_none(), is_last) {
            (true, _) => ("", ""),
            (false, true) => ("└─ ", "   "),
            (false, false) => ("├─ ", "│  "),
        };
        lines.push(line(span, &format!("{indent}{branch}")));
        waiting.extend(below(&children, Some(&span.span_id), &format!("{indent}{further}")));
    }
    lines
}

/// A span and where it is drawn.
struct Place<'a> {
    span: &'a Span,
    indent: String,
    is_last: bool,
}

/// What stands directly below a span, last one first: it is taken from the end.
fn below<'a>(children: &BTreeMap<Option<&str>, Vec<&'a Span>>, parent: Option<&str>, indent: &str) -> Vec<Place<'a>> {
    let spans = children.get(&parent).map(Vec::as_slice).unwrap_or_default();
    let place = |(index, span): (usize, &&'a Span)| Place {
        span,
        indent: indent.to_owned(),
        is_last: index + 1 == spans.len(),
    };
    spans.iter().enumerate().rev().map(place).collect()
}

fn line(span: &Span, branch: &str) -> String {
    let told = match span.kind {
        SpanKind::Run | SpanKind::Wait => span.detail.clone(),
        SpanKind::Task | SpanKind::Model | SpanKind::Tool => format!("{} {}", span.name, span.detail),
    };
    let room = TREE_COLUMNS.saturating_sub(branch.chars().count());
    let told = cut(&output::printable(&told), room);
    let width = room.saturating_sub(told.chars().count());
    format!("{branch}{told}{:width$}  {:>8}  {:>9}  {}", "", time(span), cost(span), span.status)
}

fn cut(text: &str, characters: usize) -> String {
    match text.chars().count() > characters {
        true => text.chars().take(characters.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// From beginning to end; a dash while it goes on.
fn time(span: &Span) -> String {
    let Some(ended) = span.ended_at else { return "–".to_owned() };
    let ms = (ended.0 - span.started_at.0).max(0) / 1000;
    if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

fn cost(span: &Span) -> String {
    match span.usage.usd.dollars() {
        0.0 if span.usage.tokens() > 0 => format!("{} tok", span.usage.tokens()),
        0.0 => String::new(),
        dollars if span.usage.usd_assumed.is_nothing() && span.usage.usd_guessed.is_nothing() => {
            format!("${dollars:.4}")
        }
        // At a price, or for tokens, that are not known, but assumed.
        dollars => format!("~${dollars:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::{RunId, Seq, Timestamp, Usd};

    fn span(id: &str, parent: Option<&str>, name: &str, usd: u64) -> Span {
        Span {
            span_id: id.into(),
            parent: parent.map(Into::into),
            kind: if parent.is_none() { SpanKind::Run } else { SpanKind::Tool },
            name: name.into(),
            detail: "detail\u{1b}[2J".into(),
            role: None,
            status: "ok".into(),
            started_at: Timestamp(0),
            ended_at: Some(Timestamp(1_500_000)),
            usage: choir_proto::model::Usage { usd: Usd(usd), ..Default::default() },
            seq: Seq(1),
        }
    }

    #[test]
    fn an_assumed_price_is_told_from_a_known_one() {
        let mut known = span("r", None, "run", 20_000);
        assert_eq!(cost(&known), "$0.0200");
        known.usage.usd_assumed = Usd(1);
        assert_eq!(cost(&known), "~$0.0200");
    }

    #[test]
    fn a_tree_is_drawn_with_times_and_cost_and_nothing_that_steers_the_terminal() {
        let spans = vec![
            span("r", None, "run", 20_000),
            span("a", Some("r"), "one", 0),
            span("b", Some("r"), "two", 0),
            span("c", Some("a"), "three", 0),
        ];
        let run_id: RunId = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        let lines = lines(&Trace { run_id, spans, truncated: false, upto: Seq(1) });
        let begins: Vec<_> = lines.iter().map(|line| line.split(" detail").next().unwrap()).collect();
        assert_eq!(begins[1..], ["├─ one", "│  └─ three", "└─ two"]);
        assert!(lines[0].contains("1.5 s") && lines[0].contains("$0.0200") && lines[0].ends_with("ok"), "{}", lines[0]);
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
    }
}
