//! Runs the terminal UI: over all live sessions (`subscope` without a command), or over a replayed session (`subscope
//! replay`).
//!
//! The UI runs on its own thread; its queries are answered here, one at a time, by the backend of all commands.

mod answer;
mod late;
mod looks;
mod replay;

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use subscope_client::{Client, PolledFeed};
use subscope_hub::clock;
use subscope_tui::{Answers, Clocks, Ends, Links, Playback, Question, Reply, RunError};

pub(crate) use self::replay::run as replay;
use self::{answer::QueryHandler, late::LateFeed};
use super::watch::{FollowedFeed, live};
use crate::{prelude::*, team_server};

/// Most waiting queries: one of each kind, and some more for fast input on a slow disk.
const MAX_QUESTIONS: usize = 16;

const CLOCKS: Clocks = Clocks { now_ms: clock::now_ms, awake_ms: clock::awake_ms };

/// Runs the UI over all live sessions, and in between over the demo's recording if it is asked for.
pub(crate) fn run(plain: bool, context: &mut Context) -> Result<(), CliError> {
    if plain {
        return print_lines(context);
    }
    // Messages on stderr would corrupt the screen.
    context.verbosity = Verbosity::Quiet;
    while run_live(context)? == Next::Demo {
        replay::demo(context)?;
    }
    Ok(())
}

fn run_live(context: &Context) -> Result<Next, CliError> {
    let (late, feed) = LateFeed::new();
    let ui = UiThread::start(Some(Box::new(late)), None, context)?;
    // The screen is drawn before the hub is connected.
    let followed = follow_all(&subscope_tui::restore, context);
    let (hub, failure) = match followed {
        Ok(followed) => {
            // The UI may have ended.
            let _ = feed.try_send(followed.feed);
            (followed.hub, None)
        }
        Err(error) => {
            ui.show_error(&error);
            (None, Some(error))
        }
    };
    let outcome = ui.serve(&mut QueryHandler::of_everything(), context);
    drop(hub);
    failure.map_or(outcome, Err)
}

/// Follows all sessions of this machine, or those of the team whose server is asked.
fn follow_all(on_signal: live::OnSignal, context: &Context) -> Result<FollowedFeed, CliError> {
    match team_server::asked(context)? {
        Some(server) => {
            let feed = PolledFeed::open(Client::of_team(server))?;
            Ok(FollowedFeed { feed: Box::new(feed), hub: None })
        }
        None => live::follow_all(on_signal, context),
    }
}

/// Prints changes as lines.
fn print_lines(context: &Context) -> Result<(), CliError> {
    use subscope_model::FeedItem;
    let mut followed = follow_all(&|| (), context)?;
    let mut plain = subscope_tui::plain::Plain::new(context.style(None), context.offset_minutes());
    loop {
        match followed.feed.next(std::time::Duration::from_secs(1)) {
            FeedItem::Update(update) => {
                let lines = plain.take(update, context.now_ms());
                if !lines.is_empty() {
                    output::print(&lines)?;
                }
            }
            FeedItem::Idle => {}
            FeedItem::Closed => return Ok(()),
        }
    }
}

/// Action after the UI has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Demo,
}

struct UiThread {
    thread: thread::JoinHandle<Result<Ends, RunError>>,
    questions: Receiver<Question>,
    replies: SyncSender<Reply>,
}

impl UiThread {
    fn start(
        feed: Option<Box<dyn subscope_model::Feed>>,
        playback: Option<Playback>,
        context: &Context,
    ) -> Result<Self, CliError> {
        let settings = looks::settings(context);
        let (ask, questions) = sync_channel(MAX_QUESTIONS);
        let (replies, answers) = sync_channel(MAX_QUESTIONS);
        let links = Links { feed, answers: Answers { questions: ask, replies: answers }, clocks: CLOCKS };
        let build = thread::Builder::new().name("ui".to_owned());
        let thread = build.spawn(move || subscope_tui::run(settings, links, playback))?;
        Ok(Self { thread, questions, replies })
    }

    fn show_error(&self, error: &CliError) {
        // The UI may have ended.
        let _ = self.replies.try_send((Question::Page, Err(error.to_string())));
    }

    /// Answers queries until the UI ends.
    fn serve(self, handler: &mut QueryHandler, context: &Context) -> Result<Next, CliError> {
        let Self { thread, questions, replies } = self;
        while let Ok(question) = questions.recv() {
            let reply = handler.answer(question.clone(), context);
            // The UI may have ended.
            let _ = replies.send((question, reply.map_err(|error| error.to_string())));
        }
        drop(replies);
        match thread.join() {
            Ok(Ok(Ends::Quit)) => Ok(Next::Nothing),
            Ok(Ok(Ends::Demo)) => Ok(Next::Demo),
            Ok(Ok(Ends::Signal(number))) => std::process::exit(128 + number),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(CliError::failed("the terminal UI broke")),
        }
    }
}
