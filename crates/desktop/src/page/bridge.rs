//! The doors to the browser, typed. Whatever is started here ends when its [`Held`] is dropped.

use js_sys::{Function, Promise};
use std::any::Any;
use wasm_bindgen::prelude::*;
use web_sys::Element;

#[wasm_bindgen(module = "choir-desktop-js/bridge.js")]
extern "C" {
    /// What a server answered.
    pub(crate) type Reply;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn status(this: &Reply) -> u16;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn text(this: &Reply) -> String;

    #[wasm_bindgen(catch)]
    async fn request(method: &str, path: &str, body: JsValue, kind: Option<String>) -> Result<JsValue, JsValue>;
    /// What stops something that takes long.
    type Stopper;
    fn stopper() -> Stopper;
    #[wasm_bindgen(method, getter)]
    fn signal(this: &Stopper) -> JsValue;
    #[wasm_bindgen(method, getter)]
    fn stop(this: &Stopper) -> Function;
    #[wasm_bindgen(method)]
    fn stopped(this: &Stopper) -> bool;

    #[wasm_bindgen(catch, js_name = upload)]
    async fn send_file(
        path: &str,
        file: JsValue,
        on_progress: &Closure<dyn FnMut(f64)>,
        signal: &JsValue,
    ) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(catch, js_name = download)]
    async fn fetch_file(
        path: &str,
        name: &str,
        size: f64,
        on_progress: &Closure<dyn FnMut(f64)>,
        signal: &JsValue,
    ) -> Result<JsValue, JsValue>;
    async fn follow(
        path: &str,
        on_open: &Closure<dyn FnMut()>,
        on_text: &Closure<dyn FnMut(String) -> bool>,
    ) -> JsValue;
    async fn sleep(ms: f64) -> JsValue;
    fn now() -> f64;
    pub(crate) fn visit(address: &str);
    #[wasm_bindgen(js_name = watchReturn)]
    fn watch_return(on_return: &Closure<dyn FnMut()>) -> Function;

    pub(crate) fn print();
    #[wasm_bindgen(js_name = watchPrint)]
    fn watch_print(on_print: &Closure<dyn FnMut(bool)>) -> Function;
    pub(crate) fn notify(title: &str, text: &str);
    /// Whether the person looks at something else.
    #[wasm_bindgen(js_name = isElsewhere)]
    pub(crate) fn is_elsewhere() -> bool;
    /// `default`, `granted`, `denied` or `unsupported`.
    pub(crate) fn notifications() -> String;
    #[wasm_bindgen(js_name = askNotifications)]
    async fn ask_notifications() -> JsValue;

    pub(crate) fn theme(name: Option<String>);
    #[wasm_bindgen(js_name = setTitle)]
    pub(crate) fn set_title(text: &str);
    pub(crate) fn focus(selector: &str);
    #[wasm_bindgen(js_name = focusWindow)]
    pub(crate) fn focus_window(id: &str);
    pub(crate) fn leave();
    pub(crate) fn bring(id: &str);
    /// Whether it is in the clipboard.
    pub(crate) async fn copy(text: &str) -> JsValue;
    pub(crate) fn grow(element: &Element);
    pub(crate) fn before(id: &str) -> String;
    pub(crate) fn write(id: &str, before: &str, after: &str);
    pub(crate) fn remember(key: &str, value: &str);
    pub(crate) fn recall(key: &str) -> Option<String>;

    #[wasm_bindgen(js_name = watchSize)]
    fn watch_size(element: &Element, on_size: &Closure<dyn FnMut(f64, f64)>) -> Function;
    #[wasm_bindgen(js_name = watchKeys)]
    fn watch_keys(on_key: &Closure<dyn FnMut(String, bool) -> bool>) -> Function;
    #[wasm_bindgen(js_name = dragWindow)]
    fn drag_window(
        element: &Element,
        on_rect: &Closure<dyn FnMut(i32, i32, u32, u32)>,
        on_shape: &Closure<dyn FnMut(String)>,
    ) -> Function;

    #[wasm_bindgen(js_name = chooseFiles)]
    fn choose_files(on_file: &JsValue, folder: bool);
    #[wasm_bindgen(js_name = watchDrop)]
    fn watch_drop(element: &Element, on_file: &Closure<dyn FnMut(String, JsValue)>) -> Function;
    #[wasm_bindgen(js_name = watchStrays)]
    fn watch_strays(element: &Element, on_file: &Closure<dyn FnMut(String, JsValue)>) -> Function;
    #[wasm_bindgen(js_name = watchMoves)]
    fn watch_moves(element: &Element, on_move: &Closure<dyn FnMut(String, String)>) -> Function;
    /// Does what a button of a window does; answers whether it has it now.
    pub(crate) fn press(window: &str, act: &str) -> bool;
    #[wasm_bindgen(catch)]
    async fn bytes(path: &str) -> Result<JsValue, JsValue>;
    pub(crate) fn picture(blob: &JsValue, kind: &str) -> String;
    pub(crate) fn forget(address: &str);
    pub(crate) fn save(name: &str, text: &str);

    /// A terminal.
    #[derive(Clone)]
    pub(crate) type Terminal;
    #[wasm_bindgen(catch)]
    async fn terminal(element: &Element, id: &str, on_state: &Closure<dyn FnMut(String)>) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, getter, js_name = close)]
    fn terminal_close(this: &Terminal) -> Function;
    /// Selects the next place that holds these words, or the one before; answers whether there is one.
    #[wasm_bindgen(method, js_name = find)]
    pub(crate) fn seek(this: &Terminal, words: &str, back: bool) -> bool;
    /// Gives it the keyboard.
    #[wasm_bindgen(method, js_name = focus)]
    pub(crate) fn take_keys(this: &Terminal);
    /// Types.
    #[wasm_bindgen(method)]
    pub(crate) fn press(this: &Terminal, keys: &str);
    /// Types what is in the clipboard.
    #[wasm_bindgen(method, js_name = paste)]
    pub(crate) fn paste_into(this: &Terminal) -> Promise;
    /// Puts what is selected, or the screen, into the clipboard.
    #[wasm_bindgen(method, js_name = copy)]
    pub(crate) fn copy_from(this: &Terminal) -> Promise;

    /// A version of a document, shown.
    type Version;
    #[wasm_bindgen(catch)]
    async fn version(element: &Element, id: &str, number: u32, against: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, getter)]
    fn content(this: &Version) -> String;
    #[wasm_bindgen(method, getter, js_name = close)]
    fn version_close(this: &Version) -> Function;

    /// A document editor.
    #[derive(Clone)]
    pub(crate) type Editor;
    #[wasm_bindgen(catch)]
    async fn editor(
        element: &Element,
        id: &str,
        long: bool,
        on_state: &Closure<dyn FnMut(String)>,
    ) -> Result<JsValue, JsValue>;
    /// Tries to reach the server again at once.
    #[wasm_bindgen(method)]
    pub(crate) fn retry(this: &Editor);
    /// Marks places of the text, given as JSON.
    #[wasm_bindgen(method)]
    pub(crate) fn mark(this: &Editor, json: &str);
    /// Says who wrote what, as JSON.
    #[wasm_bindgen(method)]
    pub(crate) fn authors(this: &Editor, json: &str);
    /// Says which agent writes now; an empty word means none.
    #[wasm_bindgen(method)]
    pub(crate) fn writes(this: &Editor, role: &str);
    /// Selects a range of characters and brings it into view.
    #[wasm_bindgen(method)]
    pub(crate) fn show(this: &Editor, from: f64, to: f64);
    /// Brings a character into view, if it is not in view already.
    #[wasm_bindgen(method)]
    pub(crate) fn reveal(this: &Editor, at: f64);
    /// Brings a line into view.
    #[wasm_bindgen(method)]
    pub(crate) fn line(this: &Editor, at: u32);
    /// Opens find and replace.
    #[wasm_bindgen(method)]
    pub(crate) fn find(this: &Editor);
    /// The text as it stands.
    #[wasm_bindgen(method, js_name = text)]
    pub(crate) fn document(this: &Editor) -> String;
    #[wasm_bindgen(method, getter)]
    fn close(this: &Editor) -> Function;
}

/// Something that the browser does for us until this is dropped.
pub(crate) struct Held {
    stop: Function,
    // Kept, because the browser calls them.
    _closures: Vec<Box<dyn Any>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Stopping twice or too late is harmless; there is nobody left to tell.
        self.stop.call0(&JsValue::NULL).ok();
    }
}

/// One request; a network failure is the browser's sentence.
pub(crate) async fn call(method: &str, path: &str, body: Option<&str>) -> Result<Reply, String> {
    let body = body.map_or(JsValue::UNDEFINED, JsValue::from_str);
    request(method, path, body, None).await.map(JsCast::unchecked_into).map_err(|error| sentence(&error))
}

/// Something that takes long: how far it is, from 0 to 1, and how it is stopped.
pub(crate) struct Transfer {
    stopper: Stopper,
    on_progress: Closure<dyn FnMut(f64)>,
}

impl Transfer {
    /// Of which nobody needs to hear.
    pub(crate) fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Which says how far it is.
    pub(crate) fn new(on_progress: impl FnMut(f64) + 'static) -> Self {
        Self { stopper: stopper(), on_progress: Closure::new(on_progress) }
    }

    /// What stops it.
    pub(crate) fn stop(&self) -> Function {
        self.stopper.stop()
    }

    /// Whether it was stopped.
    pub(crate) fn stopped(&self) -> bool {
        self.stopper.stopped()
    }

    /// Sends a file that the person chose.
    pub(crate) async fn upload(&self, path: &str, file: JsValue) -> Result<Reply, String> {
        let sent = send_file(path, file, &self.on_progress, &self.stopper.signal()).await;
        sent.map(JsCast::unchecked_into).map_err(|error| sentence(&error))
    }

    /// Fetches a file and gives it to the person.
    pub(crate) async fn download(&self, path: &str, name: &str, size: u64) -> Result<Reply, String> {
        let fetched = fetch_file(path, name, size as f64, &self.on_progress, &self.stopper.signal()).await;
        fetched.map(JsCast::unchecked_into).map_err(|error| sentence(&error))
    }
}

fn sentence(error: &JsValue) -> String {
    let message = js_sys::Reflect::get(error, &"message".into()).ok();
    message.and_then(|message| message.as_string()).unwrap_or_else(|| "the browser did not say why".to_owned())
}

/// Follows a stream of texts to its end; `on_text` answers whether to go on.
pub(crate) async fn stream(path: &str, on_open: impl FnMut() + 'static, on_text: impl FnMut(String) -> bool + 'static) {
    let (on_open, on_text) = (Closure::new(on_open), Closure::new(on_text));
    follow(path, &on_open, &on_text).await;
}

/// Waits.
pub(crate) async fn pause(ms: u32) {
    sleep(f64::from(ms)).await;
}

/// The browser's clock.
pub(crate) fn time() -> choir_proto::Timestamp {
    choir_proto::Timestamp((now() * 1_000.0) as i64)
}

/// Reports when the network or the person comes back.
pub(crate) fn returns(on_return: impl FnMut() + 'static) -> Held {
    let on_return = Closure::new(on_return);
    Held { stop: watch_return(&on_return), _closures: vec![Box::new(on_return)] }
}

/// Reports when the page begins to go on paper, and when that is over.
pub(crate) fn prints(on_print: impl FnMut(bool) + 'static) -> Held {
    let on_print = Closure::new(on_print);
    Held { stop: watch_print(&on_print), _closures: vec![Box::new(on_print)] }
}

/// Asks whether the person wants to hear of things while they look elsewhere.
pub(crate) async fn allow_notifications() -> String {
    ask_notifications().await.as_string().unwrap_or_default()
}

/// Reports an element's size.
pub(crate) fn sizes(element: &Element, on_size: impl FnMut(f64, f64) + 'static) -> Held {
    let on_size = Closure::new(on_size);
    Held { stop: watch_size(element, &on_size), _closures: vec![Box::new(on_size)] }
}

/// Reports keys such as `Ctrl k` and whether a text field has the focus; the answer says whether the key was taken.
pub(crate) fn keys(on_key: impl FnMut(String, bool) -> bool + 'static) -> Held {
    let on_key = Closure::new(on_key);
    Held { stop: watch_keys(&on_key), _closures: vec![Box::new(on_key)] }
}

/// Lets a window be dragged and resized.
pub(crate) fn draggable(
    element: &Element,
    on_rect: impl FnMut(i32, i32, u32, u32) + 'static,
    on_shape: impl FnMut(String) + 'static,
) -> Held {
    let (on_rect, on_shape) = (Closure::new(on_rect), Closure::new(on_shape));
    Held { stop: drag_window(element, &on_rect, &on_shape), _closures: vec![Box::new(on_rect), Box::new(on_shape)] }
}

/// Whether a document can be edited in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// It can.
    ForWriting,
    /// It is too long for a replica; it can be read.
    ForReading,
}

/// Opens the editor of a document; what it says of itself arrives as JSON.
pub(crate) async fn open_editor(
    element: &Element,
    id: &str,
    length: Length,
    on_state: impl FnMut(String) + 'static,
) -> Result<(Editor, Held), String> {
    let on_state = Closure::new(on_state);
    let opened =
        editor(element, id, length == Length::ForReading, &on_state).await.map_err(|error| sentence(&error))?;
    let opened: Editor = opened.unchecked_into();
    let held = Held { stop: opened.close(), _closures: vec![Box::new(on_state)] };
    Ok((opened, held))
}

/// Opens the screen of a terminal; it says `connecting`, `open`, `away`, `ended …`, or `find`.
pub(crate) async fn open_terminal(
    element: &Element,
    id: &str,
    on_state: impl FnMut(String) + 'static,
) -> Result<(Terminal, Held), String> {
    let on_state = Closure::new(on_state);
    let opened = terminal(element, id, &on_state).await.map_err(|error| sentence(&error))?;
    let opened: Terminal = opened.unchecked_into();
    let held = Held { stop: opened.terminal_close(), _closures: vec![Box::new(on_state)] };
    Ok((opened, held))
}

/// What a person gives at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gift {
    /// Files.
    Files,
    /// A folder with all that is in it.
    Folder,
}

/// Lets the person choose. The browser may never call back, so the closure is given away to it.
pub(crate) fn choose(gift: Gift, on_file: impl FnMut(String, JsValue) + 'static) {
    let on_file: Closure<dyn FnMut(String, JsValue)> = Closure::new(on_file);
    choose_files(&on_file.into_js_value(), gift == Gift::Folder);
}

/// Reports what is dragged onto a folder: the path of the one and of the other.
pub(crate) fn moves(element: &Element, on_move: impl FnMut(String, String) + 'static) -> Held {
    let on_move = Closure::new(on_move);
    Held { stop: watch_moves(element, &on_move), _closures: vec![Box::new(on_move)] }
}

/// Takes files that are dropped on an element.
pub(crate) fn drops(element: &Element, on_file: impl FnMut(String, JsValue) + 'static) -> Held {
    let on_file = Closure::new(on_file);
    Held { stop: watch_drop(element, &on_file), _closures: vec![Box::new(on_file)] }
}

/// Files that are dropped where nothing else takes them; `element` shows that it will.
pub(crate) fn strays(element: &Element, on_file: impl FnMut(String, JsValue) + 'static) -> Held {
    let on_file = Closure::new(on_file);
    Held { stop: watch_strays(element, &on_file), _closures: vec![Box::new(on_file)] }
}

/// The bytes of a file as the browser holds them.
pub(crate) async fn blob(path: &str) -> Result<JsValue, String> {
    bytes(path).await.map_err(|error| sentence(&error))
}

/// Shows a version of a document; answers its text.
pub(crate) async fn open_version(
    element: &Element,
    id: &str,
    number: u32,
    against: u32,
) -> Result<(String, Held), String> {
    let opened = version(element, id, number, against).await.map_err(|error| sentence(&error))?;
    let opened: Version = opened.unchecked_into();
    Ok((opened.content(), Held { stop: opened.version_close(), _closures: Vec::new() }))
}
