//! `subscope` alone: the terminal UI over everything live on this machine; `subscope replay`: the same over one session that is
//! played back.
//!
//! The UI runs on a thread of its own; its questions are answered here, one after the other, in the way of all commands.

mod answer;
mod keep;
mod late;
mod looks;
mod replay;

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use subscope_hub::clock;
use subscope_tui::{Answers, Clocks, Ends, Links, Playback, Question, Reply, RunError};

pub(crate) use self::replay::run as replay;
use self::{answer::Answering, late::LateFeed};
use super::{history::failed, watch::live};
use crate::{
    context::{Chattiness, Context},
    error::{CliError, Kind},
    output,
};

/// How many questions wait at most: one of each kind, and some of a person that is faster than the disk.
const QUESTIONS: usize = 16;

const CLOCKS: Clocks = Clocks { now_ms: clock::now_ms, awake_ms: clock::awake_ms };

/// Shows everything live.
pub(crate) fn run(plain: bool, context: &mut Context) -> Result<(), CliError> {
    if plain {
        return plainly(context);
    }
    // What is said on stderr would stand in the middle of the screen.
    context.chattiness = Chattiness::Quiet;
    let (late, feed) = LateFeed::new();
    let ui = Ui::start(Some(Box::new(late)), None, context)?;
    // The screen is there before the hub is.
    let followed = live::everything(&subscope_tui::restore, context);
    let (keeps, failure) = match followed {
        Ok(followed) => {
            feed.give(followed.feed);
            (Some(followed._keeps), None)
        }
        Err(error) => {
            ui.tell(&error);
            (None, Some(error))
        }
    };
    let outcome = ui.serve(&mut Answering::of_everything(), context);
    drop(keeps);
    match failure {
        Some(error) => Err(error),
        None => outcome,
    }
}

/// Prints changes as lines.
fn plainly(context: &Context) -> Result<(), CliError> {
    use subscope_model::FeedItem;
    let mut followed = live::everything(&|| (), context)?;
    let mut plain = subscope_tui::plain::Plain::new(context.style(None), context.offset_minutes());
    loop {
        match followed.feed.next(std::time::Duration::from_secs(1)) {
            FeedItem::Update(update) => {
                let lines = plain.take(&update, context.now_ms());
                if !lines.is_empty() {
                    output::print(&lines)?;
                }
            }
            FeedItem::Idle => {}
            FeedItem::Closed => return Ok(()),
        }
    }
}

/// A UI that runs.
struct Ui {
    thread: thread::JoinHandle<Result<Ends, RunError>>,
    questions: Receiver<Question>,
    replies: SyncSender<Reply>,
}

impl Ui {
    fn start(
        feed: Option<Box<dyn subscope_model::Feed>>,
        playback: Option<Playback>,
        context: &Context,
    ) -> Result<Self, CliError> {
        let settings = looks::settings(context);
        let (ask, questions) = sync_channel(QUESTIONS);
        let (replies, told) = sync_channel(QUESTIONS);
        let links = Links { feed, answers: Answers { questions: ask, replies: told }, clocks: CLOCKS };
        let build = thread::Builder::new().name("ui".to_owned());
        let thread = build.spawn(move || subscope_tui::run(settings, links, playback)).map_err(failed)?;
        Ok(Self { thread, questions, replies })
    }

    /// Tells the person that something went wrong.
    fn tell(&self, error: &CliError) {
        // Whoever has left needs not be told.
        let _ = self.replies.try_send(Err((Question::Page, error.to_string())));
    }

    /// Answers until the UI ends.
    fn serve(self, answering: &mut Answering, context: &Context) -> Result<(), CliError> {
        let Self { thread, questions, replies } = self;
        while let Ok(question) = questions.recv() {
            let reply = answering.answer(question.clone(), context);
            // A UI that has ended asks nothing more.
            let _ = replies.send(reply.map_err(|error| (question, error.to_string())));
        }
        drop(replies);
        match thread.join() {
            Ok(Ok(Ends::Quit)) => Ok(()),
            Ok(Ok(Ends::Signal(number))) => std::process::exit(128 + number),
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(CliError::new(Kind::Failed, "the terminal UI broke")),
        }
    }
}
