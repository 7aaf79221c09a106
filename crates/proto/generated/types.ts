// Generated from the types of `choir-proto`. The test that compares it says how to renew it.

/** The answer of every command that changed something. */
export type Acknowledged = { seq: Seq };

export type Actor = string;

/** An actor failed too often; its supervisor gave up on it. */
export type ActorEscalated = { name: string; reason: string };

/** One actor of the tree. */
export type ActorInfo = { id: string; name: string; parent?: string | null; restarts: number; state: string };

/** An actor failed and was started again. */
export type ActorRestarted = { name: string; reason: string; restarts: number };

/** Why a request was refused and how to mend it: `{"error": {"code", "message", "hint"}}`. */
export type ApiError = { error: Refusal };

/** What a window shows. */
export type App = "writer" | "terminal" | "files" | "trace" | "timeline" | "search" | "inbox" | "settings" | "preview";

/** Something that was brought in: the answer of `POST /api/artifacts` and `GET /api/artifacts/{id}`. */
export type Artifact = { artifact_id: ArtifactId; at: Timestamp; content_hash: Hash; media_type: string; origin: string; seq: Seq; size: number; text?: Hash | null; unreadable?: string | null };

/** An artifact. */
export type ArtifactContext = { artifact_id: ArtifactId };

/** Something imported or produced. */
export type ArtifactId = string;

/** Something was brought in. */
export type ArtifactImported = { artifact_id: ArtifactId; content_hash: Hash; media_type: string; origin: string; size: number; text?: Hash | null; unreadable?: string | null };

/** What sort of word is wanted. */
export type AskKind = "egress" | "tool" | "question";

/** What a model said in one turn. */
export type AssistantMessage = { reasoning?: string; reasoning_signature?: string; text?: string; tool_calls?: ToolCall[] };

/** What a run waits for. */
export type BlockedOn = "model" | "inbox" | "sandbox" | "plan";

/** Walls around an effort. A missing one means the default, never "unlimited". */
export type Budget = { steps?: number | null; time_s?: number | null; tokens?: number | null; usd?: Usd | null };

/** A person said stop, to a run or to a task of its own. It has stopped when its end says so. */
export type CancelRequested = Record<string, unknown>;

/** One change of the workspace: what a task made, or an undo. */
export type Change = { base_tree?: Hash | null; conflicts: string[]; diff?: Diff | null; files_changed: FileChange[]; result_tree?: Hash | null; seq: Seq; state: ChangeState; task_id?: TaskId | null; turned?: string[]; undo_id?: UndoId | null };

/** What became of a path. */
export type ChangeKind = "added" | "modified" | "deleted";

/** Where a change stands. */
export type ChangeState = "merged" | "undone" | "kept_out" | "held";

/** The answer of `GET /api/runs/{id}/changes` and `GET /api/tasks/{id}/changes`. */
export type Changes = { changes: Change[] };

/** A person accepted what a worker made of the checks that it was judged by. */
export type ChecksAccepted = { checks: string[]; run_status?: RunStatus | null };

/** Evidence under a claim: a range of a stored source. */
export type Citation = { artifact_id?: ArtifactId | null; at?: Place | null; from: number; hash: Hash; quote?: string | null; run_id?: RunId | null; source: Hash; to: number };

/** An agent found words in a source, exactly as it quotes them. */
export type CitationMade = { artifact_id?: ArtifactId | null; citation_id: string; document_id?: DocumentId | null; from: number; hash: Hash; quote: string; source: Hash; to: number };

/** What one command did. */
export type CommandResult = { command: string; duration_ms: number; exit_code?: number | null; limit?: Limit | null; log?: Hash | null; stderr: string; stdout: string; truncated: boolean };

/** One part of the system. */
export type Component = { detail?: string | null; status: string };

/** The first event of every log. */
export type ComputerCreated = { choir_version: string; computer_id: ComputerId };

/** One user's whole state. */
export type ComputerId = string;

/** A process took the log. */
export type ComputerStarted = { choir_version: string; clean: boolean };

/** The process that held the log ended in order. */
export type ComputerStopped = { reason: string };

/** Something the agents should look at: data with its origin, never an instruction. */
export type Context = DocumentContext | PathContext | ArtifactContext | RunContext | UrlContext;

/** A conversation came near the model's window, and old parts of it were shortened. The log has them whole. */
export type ContextCompacted = { after_tokens: number; before_tokens: number; data_bytes?: number | null; messages: number; newest_bytes?: number | null; spares_words?: boolean; text_bytes: number; turn: number };

/** A person's word on a proposal: the body of `POST /api/documents/{id}/proposals/{p}`. */
export type Decide = { decision: Decision };

/** Yes or no. */
export type Decision = "accept" | "reject";

/** The whole desktop: the view that `core` folds from the log. */
export type Desktop = { theme?: Theme | null; windows: Window[] };

/** The body of `POST /api/desktop`: what a person did to a window. */
export type DesktopCommand = ({ app: App; command: "open"; rect?: Rect | null; subject?: Subject | null }) | { command: "focus"; window_id: WindowId } | { command: "move"; rect: Rect; window_id: WindowId } | { command: "shape"; shape: Shape; window_id: WindowId } | { command: "show"; subject: Subject; window_id: WindowId } | { command: "close"; window_id: WindowId } | ({ command: "theme"; theme?: Theme | null }) | { command: "dismiss"; run_id: RunId };

/** A change as text. */
export type Diff = { blob?: Hash | null; content: string; format: string; whole?: string | null };

/** A whole document: the answer of `GET /api/documents/{id}`. */
export type Document = { citations: Citation[]; content: string; document_id: DocumentId; figures?: Figure[]; proposals: Proposal[]; threads?: Thread[]; title: string; unsupported?: Unsupported[]; version: number };

/** A document's replica was kept as a whole, so that opening it need not read every update. */
export type DocumentCompacted = { document_id: DocumentId; state: Hash; version: number };

/** A document or a range of it. */
export type DocumentContext = { document_id: DocumentId; from?: number | null; to?: number | null };

/** A document began. */
export type DocumentCreated = { document_id: DocumentId; title: string };

/** One living document. */
export type DocumentId = string;

/** A person put a document into the trash. Nothing of it is gone: it is only not listed. */
export type DocumentRemoved = { document_id: DocumentId };

/** A person took a document out of the trash. */
export type DocumentRestored = { document_id: DocumentId };

/** What is known of a document without its text: the view that `core` folds from the log. */
export type DocumentSummary = { changed_at: Timestamp; content_hash: Hash; created_at: Timestamp; document_id: DocumentId; removed_at?: Timestamp | null; run_id?: RunId | null; seq: Seq; size: number; title: string; version: number };

/** A document was put away; its versions stay in the log. */
export type DocumentTrashed = { document_id: DocumentId; reason: string };

/** The words of a document changed. Every change has a version's number; not every version has a name. */
export type DocumentUpdated = { changes: TextChange[]; content_hash: Hash; document_id: DocumentId; effect_id?: string | null; size: number; sketch?: Sketch | null; update?: string | null; version: number };

/** A point in a document's life. */
export type DocumentVersioned = { content?: string | null; content_hash: Hash; document_id: DocumentId; reason: string; size: number; title: string; version: number };

/** The body of `PUT /api/documents/{id}`: merged against the head, never overwriting it. */
export type EditDocument = { base_version: number; content: string };

/** Where a task may connect to. */
export type Egress = { allow?: string[] };

/** A connection was allowed. */
export type EgressAllowed = { host: string; port: number; rule: string };

/** A connection was refused. */
export type EgressDenied = { host: string; port: number; reason: string };

/** Kinds of failure. The policy for each is a decision in `core`. */
export type ErrorClass = "no_model" | "rate_limit" | "overloaded" | "timeout" | "truncated" | "refused" | "too_long" | "bad_request" | "auth" | "garbage" | "oversized" | "budget";

/** One immutable fact; a UUIDv7 chosen by whoever appends, so that a retry is recognised. */
export type EventId = string;

/** A figure or a table that a command made. */
export type Figure = { at?: Place | null; because?: string | null; command: string; figure_id: string; inputs?: FigureInput[]; output?: Hash | null; status: FigureStatus; task_id?: TaskId | null };

/** A figure was made, is being made, or no longer shows what is so. */
export type FigureChanged = { document_id: DocumentId; figure: Figure };

/** A file that a figure was made from. */
export type FigureInput = { hash: Hash; path: string };

/** Whether a figure shows what is so. */
export type FigureStatus = "fresh" | "stale" | "running" | "failed" | "unknown";

/** One path that changed. */
export type FileChange = { change: ChangeKind; path: string };

/** A file of the workspace changed. */
export type FileChanged = { change: ChangeKind; content_hash?: Hash | null; path: string };

/** A wish concerning checkpoints. */
export type GitAction = { action: GitVerb; message?: string | null; target?: string | null };

/** The four git actions. */
export type GitVerb = "checkpoint" | "reset" | "checkout" | "status";

/** Thirty-two bytes that name content. Written as 64 lower-case hexadecimal digits. */
export type Hash = string;

/** Everything that is known of an event but its payload. */
export type Header = { actor: Actor; at: Timestamp; cause?: EventId | null; epoch: number; hash: Hash; id: EventId; kind: string; payload_hash: Hash; prev: Hash; run?: RunId | null; seq: Seq; task?: TaskId | null; version: number };

/** The answer of `GET /health`. */
export type Health = { components: Record<string, Component>; status: string; version: string };

/** Something was put to the person. */
export type InboxAsked = { answers?: Side[]; ask: AskKind; hash: Hash; inbox_id: InboxId; question: string; subject: string };

/** The person decided, or nobody did in time. A copy: control has the original. */
export type InboxDecided = { decision: Verdict; inbox_id: InboxId };

/** Something put to the person. */
export type InboxId = string;

/** Paths that no tree can hold: pipes, sockets, devices, and files that are too large or closed to everybody. */
export type LeftOut = { count: number; forbidden?: string[]; paths: string[] };

/** What a sandbox may use only so much of. */
export type Limit = "memory" | "processes" | "file_bytes" | "workspace_bytes" | "workspace_names" | "free_space";

/** A model answered. */
export type ModelCalled = { duration_ms: number; heard?: Seq | null; message: AssistantMessage; model: string; stop: StopReason; turn: number; usage: Usage; window?: number | null };

/** A model did not answer. */
export type ModelFailed = { attempt: number; class: ErrorClass; message: string; turn: number; usage?: Usage };

/** The body of `POST /api/documents`. */
export type NewDocument = { content?: string; title: string };

/** What a person wants done: the body of `POST /api/runs`. */
export type NewRun = { budget?: Budget | null; context?: Context[]; document_id?: DocumentId | null; model?: string | null; plan_first?: boolean | null; prompt: string; selection?: Selection | null; verify?: Verify | null };

/** The body of `POST /api/tours`. */
export type NewTour = { pace?: Pace; tour: Tour };

/** The body of `POST /api/runs/{id}/undo` and `POST /api/tasks/{id}/undo`; it may be left out. */
export type NewUndo = { path?: string | null; undo_id?: UndoId | null };

/** A tool from elsewhere. */
export type OfferedTool = { definition: Hash; description: string; input_schema: unknown; name: string };

/** Where one piece of a text comes from. */
export type Origin = { at: Timestamp; author: Actor; from: number; prompt?: string | null; run_id?: RunId | null; seq: Seq; sources: Citation[]; to: number; tool_call?: Span | null; usage?: Usage | null };

/** How quickly recorded answers come. */
export type Pace = "watched" | "at_once";

/** Tokens and money in all, as control has counted them for a run. */
export type Paid = { output_tokens?: number; tokens: number; usd: Usd };

/** A file of the workspace. */
export type PathContext = { path: string };

/** A payload or blob was replaced by a tombstone. */
export type PayloadErased = { blobs: Hash[]; document_id?: DocumentId | null; event_id: EventId; seq: Seq };

/** A range of a document's text, in characters. */
export type Place = { from: number; to: number };

/** The answer of `POST /api/tours/{id}/plug`: the computer's process was killed, and another one stands in its place. */
export type PlugPulled = { away_ms: number; restarts: number };

/** A change that waits for a person. */
export type Proposal = { from?: number; new: string; old: string; outdated?: boolean; proposal_id: string; run_id?: RunId | null; version?: number };

/** A person said yes or no to a proposal. */
export type ProposalDecided = { decision: Decision; document_id: DocumentId; proposal_id: string };

/** An agent would change what a person wrote. */
export type ProposalMade = { document_id: DocumentId; effect_id?: string | null; from: number; new: string; old: string; proposal_id: string; version: number };

/** Where a range of a document comes from: the answer of `GET /api/documents/{id}/provenance`. */
export type Provenance = { document_id: DocumentId; pieces: Origin[]; truncated: boolean; version: number };

/** For how much a decision counts. */
export type Reach = "once" | "run" | "always";

/** Where a window lies, in CSS pixels of the canvas. */
export type Rect = { height: number; width: number; x: number; y: number };

/** What is inside every [`ApiError`]. */
export type Refusal = { code: string; hint: string; message: string };

/** Why requests were refused before anybody looked at what they wanted. */
export type RefusalReason = "foreign_origin" | "wrong_host" | "unknown_id" | "impossible_task";

/** Requests were refused because of where they came from or what they reached for. Many alike are told once. */
export type RequestRefused = { count: number; method: string; origin?: string | null; path: string; peer: string; reason: RefusalReason };

/** What an agent is for. Roles differ by prompt, tools, budget and grants, never by loop. */
export type Role = "conductor" | "writer" | "terminal" | "researcher";

/** One run. */
export type Run = { accepted_at: Timestamp; answer?: string | null; blocked_on?: BlockedOn | null; dismissed_at?: Timestamp | null; document_id?: DocumentId | null; ended_at?: Timestamp | null; model?: string | null; prompt: string; reason?: string | null; removed_at?: Timestamp | null; run_id: RunId; selection?: Selection | null; seq: Seq; status: RunStatus; tasks: TaskSummary[]; upto?: Seq; usage: Usage };

/** The answer of `POST /api/runs`. */
export type RunAccepted = { run_id: RunId; seq: Seq };

/** A short answer. */
export type RunAnswered = { text: string };

/** It waits for something. */
export type RunBlocked = { message: string; on: BlockedOn };

/** What another run made. */
export type RunContext = { run_id: RunId };

/** A person has seen how a run ended, and put its card away. The run is listed as before. */
export type RunDismissed = Record<string, unknown>;

/** Nothing more will happen. */
export type RunEnded = { status: RunStatus; summary: string; unanswered?: Paid | null };

/** One objective given by a person. */
export type RunId = string;

/** A person said wait. */
export type RunPaused = Record<string, unknown>;

/** A person put an ended run into the trash. Nothing of it is gone: it is only not listed. */
export type RunRemoved = Record<string, unknown>;

/** A person took a run out of the trash. */
export type RunRestored = Record<string, unknown>;

/** A person said go on. */
export type RunResumed = Record<string, unknown>;

/** Agents work on it. */
export type RunStarted = Record<string, unknown>;

/** How a run stands or ended. */
export type RunStatus = "accepted" | "running" | "paused" | "blocked" | "completed" | "verified" | "failed" | "cancelled" | "out_of_time" | "out_of_steps" | "out_of_budget" | "unknown";

/** A person said something to the agents at work. */
export type RunSteered = { text: string };

/** A part of a document that a person selected, and what they want of it. */
export type Selection = { action: SelectionAction; from: number; quote?: string | null; to: number };

/** What a person wants of a part of a document. */
export type SelectionAction = "ask" | "change" | "verify";

/** A position in a computer's log: 1, 2, 3 … without holes. Zero means "before the first event". */
export type Seq = number;

/** How a window is shown. */
export type Shape = "normal" | "minimised" | "maximised" | "left_half" | "right_half";

/** What a person wants of a path that changed on both sides. */
export type Side = "mine" | "theirs" | "both";

/** Words of an answer that a model was still saying when they were written. */
export type Sketch = { turn: number; withdrawn?: boolean };

/** Something that took time. */
export type Span = { detail: string; ended_at?: Timestamp | null; kind: SpanKind; name: string; parent?: string | null; role?: Role | null; seq: Seq; span_id: string; started_at: Timestamp; status: string; usage: Usage };

/** What a span is. */
export type SpanKind = "run" | "task" | "model" | "tool" | "wait";

/** The body of `POST /api/runs/{id}/steer`. */
export type Steer = { text: string };

/** Why an answer ended. */
export type StopReason = "finished" | "tool_use" | "length" | "budget" | "refused";

/** What a window is about. */
export type Subject = { document: DocumentId } | { run: RunId } | { terminal: TerminalId } | { path: string };

/** The answer of `GET /api/supervision`. */
export type Supervision = { actors: ActorInfo[] };

/** The answer of `POST /api/tasks`. */
export type TaskAccepted = { seq: Seq; task_id: TaskId };

/** What a worker made did not come in whole: somebody else had changed the same, and a person has to say what stays. */
export type TaskConflicted = { result: TaskResult };

/** A worker waits: for a model that says nothing, for another attempt, or for its turn. What it waits for is over when it starts, when a model answers it, or when it ends. */
export type TaskDelayed = { attempt?: number | null; message: string; model?: string | null; waited_ms?: number | null };

/** A worker ended. */
export type TaskFinished = { result: TaskResult };

/** One typed envelope to a worker. */
export type TaskId = string;

/** What sort of work a task is. */
export type TaskKind = "edit" | "run" | "research" | "git" | "inspect";

/** What a worker is asked to do. Only `kind` and `instruction` are required. */
export type TaskRequest = { acceptance_criteria?: string[]; allowed_tools?: string[] | null; base_ref?: string | null; budget?: Budget | null; commands?: string[]; egress?: Egress | null; git_action?: GitAction | null; instruction: string; kind: TaskKind; return?: Wanted | null; verify?: Verify | null };

/** Work was asked of a worker. */
export type TaskRequested = { parent?: TaskId | null; request: TaskRequest; role?: Role | null };

/** What came of a task. */
export type TaskResult = { base_tree?: Hash | null; commands?: CommandResult[]; conflicts?: string[]; diff?: Diff | null; files_changed?: FileChange[]; forbidden?: string[]; held?: boolean; left_out?: LeftOut | null; merged_tree?: Hash | null; over_tree?: Hash | null; questions?: string[]; result_tree?: Hash | null; status: TaskStatus; suggested_next?: string | null; summary: string; task_id: TaskId; usage?: TaskUsage; verify?: VerifyResult | null };

/** A worker began. */
export type TaskStarted = { alone?: boolean; base_tree?: Hash | null };

/** How a task stands or ended. */
export type TaskStatus = "running" | "ok" | "needs_input" | "failed" | "cancelled" | "out_of_time" | "out_of_steps" | "out_of_budget" | "unknown";

/** One agent of a run. */
export type TaskSummary = { checks_changed?: string[]; objective: string; parent?: TaskId | null; role?: Role | null; status: TaskStatus; summary?: string | null; task_id: TaskId; verified?: boolean; waits?: string | null };

/** What a task took. */
export type TaskUsage = { time_s: number; tokens: number; usd: Usd; usd_assumed?: Usd };

/** A terminal ended. */
export type TerminalClosed = { exit_code?: number | null; terminal_id: TerminalId };

/** One terminal of the session associate. */
export type TerminalId = string;

/** A terminal began. */
export type TerminalOpened = { terminal_id: TerminalId };

/** One place of a text that changed. */
export type TextChange = { from: number; inserted: number; removed: number; text?: string | null };

/** The two themes. */
export type Theme = "matins" | "vespers";

/** A theme was chosen. */
export type ThemeChosen = { theme?: Theme | null };

/** Something that was asked about a part of a document, and what came of it. */
export type Thread = { action: SelectionAction; answer?: string | null; at?: Place | null; prompt: string; quote: string; reason?: string | null; run_id: RunId; status: RunStatus };

/** Microseconds since 1970-01-01 UTC; RFC 3339 in JSON. */
export type Timestamp = string;

/** One tool that a model wants called. */
export type ToolCall = { arguments: unknown; id: string; malformed?: string | null; name: string };

/** A tool acted, or nobody knows whether it did. */
export type ToolFinished = { call_id: string; content: string; duration_ms: number; effect_id: string; outcome: ToolOutcome; output?: Hash | null };

/** How a tool call went. */
export type ToolOutcome = "ok" | "error" | "refused" | "unknown" | "cancelled";

/** A tool is about to act. */
export type ToolStarted = { arguments: unknown; call_id: string; effect_id: string; index: number; name: string; turn: number };

/** A server offered tools to a task. What it says of them is data; a later offer of the same server replaces this one. */
export type ToolsOffered = { problem?: string | null; server: string; tools?: OfferedTool[] };

/** One part of the tour. */
export type Tour = "liar" | "quotes" | "numbers";

/** The answer of `GET /api/runs/{id}/trace`. */
export type Trace = { run_id: RunId; spans: Span[]; truncated: boolean; upto: Seq };

/** Changes that were taken back as one new change. */
export type Undo = { already?: string[]; base_tree?: Hash | null; conflicts: string[]; diff?: Diff | null; files_changed: FileChange[]; result_tree?: Hash | null; seq: Seq; summary: string; undo_id: UndoId };

/** Changes were taken back, or not. */
export type UndoFinished = { already?: string[]; base_tree?: Hash | null; conflicts: string[]; diff?: Diff | null; files_changed: FileChange[]; outcome: UndoOutcome; result_tree?: Hash | null; summary: string; undo_id: UndoId };

/** Merged changes taken back as one. */
export type UndoId = string;

/** How an undo went. */
export type UndoOutcome = "ok" | "failed";

/** Merged changes are about to be taken back as one. */
export type UndoStarted = { path?: string | null; undo_id: UndoId; undoes: Undone[] };

/** One change that an undo takes back. */
export type Undone = { base_tree: Hash; result_tree: Hash; seq: Seq };

/** A quotation that no citation holds word for word. */
export type Unsupported = { from: number; text: string; to: number };

/** A page. */
export type UrlContext = { url: string };

/** Tokens and money of one or many calls. */
export type Usage = { cache_read_tokens?: number; cache_write_tokens?: number; input_tokens?: number; output_tokens?: number; usd?: Usd; usd_assumed?: Usd; usd_guessed?: Usd };

/** Millionths of a US dollar; a number of dollars in JSON. */
export type Usd = number;

/** What came of asking. */
export type Verdict = { scope: Reach; verdict: "approved" } | { scope: Reach; verdict: "denied" } | { text: string; verdict: "answered" } | { verdict: "expired" } | { verdict: "withdrawn" };

/** How a result is checked. */
export type Verify = { commands?: string[]; mode: VerifyMode };

/** A result was checked. */
export type VerifyFinished = { attempt: number; result: VerifyResult; result_tree: Hash };

/** Ways of checking. */
export type VerifyMode = "none" | "smoke" | "commands";

/** What the verifier saw. */
export type VerifyResult = { accepted?: boolean; checks_changed?: string[]; commands?: CommandResult[]; doubtful?: string[]; doubts?: string[]; missing?: string[]; mode: VerifyMode; source: VerifySource; status: VerifyStatus; timed_out?: boolean };

/** Who chose the checks. */
export type VerifySource = "person" | "base" | "agent";

/** A result is about to be checked by somebody else than its worker. */
export type VerifyStarted = { attempt: number; commands: string[]; result_tree: Hash; source: VerifySource };

/** What came of a check. */
export type VerifyStatus = "pass" | "fail" | "unknown";

/** One version of a document. */
export type VersionSummary = { at: Timestamp; author: Actor; content_hash: Hash; reason: string; seq: Seq; version: number };

/** What a result should carry. */
export type Wanted = { artifacts?: boolean; diff?: boolean; files_changed?: boolean; logs?: boolean };

/** One window. */
export type Window = { app: App; rect?: Rect | null; shape: Shape; shape_before?: Shape | null; subject?: Subject | null; window_id: WindowId };

/** A window was closed. */
export type WindowClosed = { window_id: WindowId };

/** A window came to the front. */
export type WindowFocused = { window_id: WindowId };

/** One window of the desktop. */
export type WindowId = string;

/** A window was put elsewhere. */
export type WindowMoved = { rect: Rect; window_id: WindowId };

/** A window was opened. */
export type WindowOpened = { app: App; rect?: Rect | null; subject?: Subject | null; window_id: WindowId };

/** A window was minimised, maximised, snapped or restored. */
export type WindowShaped = { shape: Shape; window_id: WindowId };

/** A window shows something else. */
export type WindowShown = { subject: Subject; window_id: WindowId };
