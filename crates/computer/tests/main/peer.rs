//! A browser at a document, as the Yjs protocol sees one.

use crate::fake::Desk;
use choir_computer::document::{ACKNOWLEDGED, GENERATION, Inbox, Leave, Member, Outgoing, ROOT};
use choir_proto::{DocumentId, Seq};
use yrs::encoding::read::{Cursor, Read};
use yrs::sync::{Message, SyncMessage};
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Doc, GetString, ReadTxn, StateVector, Text, TextRef, Transact, Update};

pub(crate) struct Peer {
    doc: Doc,
    text: TextRef,
    member: Option<Member>,
    incoming: Option<Inbox>,
    /// Updates sent over this connection, and those of them that are in the log.
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
    pub(crate) left: Option<Leave>,
    has_everything: bool,
    /// Which generation of the document this is, as the server said.
    generation: Seq,
}

impl Peer {
    /// Connects, and waits until it has the text.
    pub(crate) async fn open(desk: &Desk, id: DocumentId, client: u64) -> Self {
        let mut peer = Self::new(client);
        peer.connect(desk, id).await;
        peer
    }

    /// One that has nothing and is nowhere.
    pub(crate) fn new(client: u64) -> Self {
        let doc = Doc::with_client_id(client);
        let text = doc.get_or_insert_text(ROOT);
        Self {
            doc,
            text,
            member: None,
            incoming: None,
            sent: 0,
            acknowledged: 0,
            left: None,
            has_everything: false,
            generation: Seq::ZERO,
        }
    }

    /// Comes with what it has and says how far it is, as a program that knows of no generations.
    pub(crate) async fn come_plainly(&mut self, desk: &Desk, id: DocumentId) -> Result<(), Leave> {
        let vector = self.doc.transact().state_vector();
        self.enter_plainly(desk, id).await;
        self.say(Message::Sync(SyncMessage::SyncStep1(vector))).await
    }

    /// The same, and sends all of it at once.
    pub(crate) async fn send_plainly(&mut self, desk: &Desk, id: DocumentId) -> Result<(), Leave> {
        let everything = self.doc.transact().encode_state_as_update_v1(&StateVector::default());
        self.enter_plainly(desk, id).await;
        self.say(Message::Sync(SyncMessage::SyncStep2(everything))).await
    }

    async fn enter_plainly(&mut self, desk: &Desk, id: DocumentId) {
        let documents = &desk.computer.app.harness.documents;
        let entered = documents.enter(id, None).await.unwrap().expect("the document is there");
        let (member, incoming) = entered.expect("a visit");
        (self.member, self.incoming) = (Some(member), Some(incoming));
    }

    /// Connects, possibly again: everything that was written meanwhile is sent.
    pub(crate) async fn connect(&mut self, desk: &Desk, id: DocumentId) {
        let (member, incoming) = self.enter(desk, id).await.unwrap();
        (self.member, self.incoming) = (Some(member), Some(incoming));
        (self.sent, self.acknowledged, self.left, self.has_everything) = (0, 0, None, false);
        let vector = self.doc.transact().state_vector();
        self.say(Message::Sync(SyncMessage::SyncStep1(vector))).await.unwrap();
        while !self.has_everything {
            self.hear().await;
        }
    }

    /// Comes again with what it has.
    pub(crate) async fn enter(&self, desk: &Desk, id: DocumentId) -> Result<(Member, Inbox), Leave> {
        let documents = &desk.computer.app.harness.documents;
        documents.enter(id, Some(self.generation)).await.unwrap().expect("the document is there")
    }

    pub(crate) fn disconnect(&mut self) {
        (self.member, self.incoming) = (None, None);
    }

    pub(crate) fn content(&self) -> String {
        self.text.get_string(&self.doc.transact())
    }

    /// Types somewhere: removes some bytes and inserts others. Says nothing yet.
    pub(crate) fn write(&self, at: u32, removed: u32, words: &str) -> Vec<u8> {
        let mut transaction = self.doc.transact_mut();
        self.text.remove_range(&mut transaction, at, removed);
        self.text.insert(&mut transaction, at, words);
        transaction.encode_update_v1()
    }

    /// Types and sends it.
    pub(crate) async fn type_at(&mut self, at: u32, removed: u32, words: &str) {
        let update = self.write(at, removed, words);
        self.send(update).await.unwrap();
    }

    pub(crate) async fn send(&mut self, update: Vec<u8>) -> Result<(), Leave> {
        self.sent += 1;
        self.say(Message::Sync(SyncMessage::Update(update))).await
    }

    pub(crate) async fn say(&mut self, message: Message) -> Result<(), Leave> {
        self.member.as_ref().expect("connected").take(&message.encode_v1()).await
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) -> Result<(), Leave> {
        self.member.as_ref().expect("connected").take(bytes).await
    }

    /// Waits for the next thing that the server says.
    pub(crate) async fn hear(&mut self) {
        let said = self.incoming.as_mut().expect("connected").recv().await;
        self.take(said.expect("the server says why it leaves")).await;
    }

    /// Takes what has been said already.
    pub(crate) async fn catch_up(&mut self) {
        while let Some(said) = self.incoming.as_mut().and_then(Inbox::try_recv) {
            self.take(said).await;
        }
    }

    async fn take(&mut self, said: Outgoing) {
        let message = match said {
            Outgoing::Message(message) => Message::decode_v1(&message).unwrap(),
            Outgoing::Close(leave) => return self.left = Some(leave),
        };
        match message {
            Message::Sync(SyncMessage::SyncStep1(vector)) => {
                let update = self.doc.transact().encode_state_as_update_v1(&vector);
                self.sent += 1;
                self.say(Message::Sync(SyncMessage::SyncStep2(update))).await.unwrap();
            }
            Message::Sync(SyncMessage::SyncStep2(update)) => {
                self.apply(&update);
                self.has_everything = true;
            }
            Message::Sync(SyncMessage::Update(update)) => self.apply(&update),
            Message::Custom(ACKNOWLEDGED, numbers) => {
                let mut numbers = Cursor::new(&numbers);
                self.acknowledged = numbers.read_var().unwrap();
            }
            Message::Custom(GENERATION, number) => self.generation = Seq(Cursor::new(&number).read_var().unwrap()),
            _ => {}
        }
    }

    fn apply(&self, update: &[u8]) {
        self.doc.transact_mut().apply_update(Update::decode_v1(update).unwrap()).unwrap();
    }

    /// Waits until everything that was sent is in the log.
    pub(crate) async fn settled(&mut self) {
        while self.acknowledged < self.sent {
            self.hear().await;
            assert_eq!(self.left, None);
        }
    }

    /// Everything it has, for whoever has nothing.
    pub(crate) fn state(&self) -> Vec<u8> {
        self.doc.transact().encode_state_as_update_v1(&StateVector::default())
    }
}
