//! Sessions of requests, each of which continues the previous one.

use super::Popularity;
use super::dice::Dice;
use super::prompt::{Blocks, Prompt, Text};

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Chat,
    Agent,
    /// `shift` is the number of the most popular document.
    Question {
        shift: u64,
    },
    Job,
}

/// How many jobs there are. Each one reads its own records in order whenever it runs.
const JOBS: u64 = 4;
const DOCUMENTS: u64 = 20_000;

impl Source {
    /// The time until the next session begins, in milliseconds. It gives about 3.5 requests a second.
    pub(super) fn gap_ms(self, dice: &mut Dice) -> f64 {
        match self {
            Self::Chat | Self::Job => dice.exponential(900.0),
            Self::Agent => dice.exponential(3_400.0),
            Self::Question { .. } => dice.exponential(430.0),
        }
    }
}

/// A session, between two of its requests.
pub(super) struct Session {
    source: Source,
    prompt: Prompt,
    /// How many requests are left, the present one included.
    left: u32,
    /// For a job: its number, and how many of its records were read.
    record: (u64, u64),
}

impl Session {
    pub(super) fn begin(
        source: Source,
        dice: &mut Dice,
        popularity: &Popularity,
        blocks: &mut Blocks,
    ) -> Self {
        let mut session = Self { source, prompt: Prompt::default(), left: 1, record: (0, 0) };
        let prompt = &mut session.prompt;
        match source {
            Source::Chat => {
                let system = popularity.systems.pick(dice);
                prompt.append_shared(blocks, Text::System(system), 1 + system % 4);
                // Most conversations are short. Some begin with a long text, or have many turns.
                prompt.append_own(blocks, dice.log_normal(2_000.0, 1.6).min(60_000.0));
                session.left =
                    if dice.share() < 0.15 { dice.geometric(12.0) } else { dice.geometric(2.2) };
            }
            Source::Agent => {
                let tools = popularity.tools.pick(dice);
                prompt.append_shared(blocks, Text::Tools(tools), 6 + tools * 7 % 26);
                prompt.append_own(blocks, dice.log_normal(500.0, 0.8));
                session.left = dice.geometric(12.0);
            }
            Source::Question { shift } => {
                prompt.append_shared(blocks, Text::System(100), 1);
                for _ in 0..2 {
                    let document = (popularity.documents.pick(dice) + shift) % DOCUMENTS;
                    prompt.append_shared(blocks, Text::Document(document), 3 + document * 11 % 9);
                }
                prompt.append_own(blocks, dice.log_normal(60.0, 0.7));
                session.left = if dice.share() < 0.3 { 2 } else { 1 };
            }
            Source::Job => {
                session.record = (dice.below(JOBS), 0);
                session.left = 150 + session.record.0 as u32 * 100;
                session.read_record(blocks);
            }
        }
        session
    }

    pub(super) fn request(&self, blocks: &mut Blocks) -> Vec<u64> {
        self.prompt.request(blocks)
    }

    /// How many full blocks the prompt has.
    pub(super) fn len(&self) -> usize {
        self.prompt.len()
    }

    /// Appends the answer and the next question. Returns the time to the next request in milliseconds, or `None` at
    /// the end.
    pub(super) fn go_on(&mut self, dice: &mut Dice, blocks: &mut Blocks) -> Option<f64> {
        self.left -= 1;
        if self.left == 0 {
            return None;
        }
        let prompt = &mut self.prompt;
        Some(match self.source {
            Source::Chat => {
                prompt.append_own(
                    blocks,
                    dice.exponential(215.0) + dice.log_normal(80.0, 1.2).min(8_000.0),
                );
                // One in ten pauses is about a quarter of an hour.
                let pause = if dice.share() < 0.1 { 900_000.0 } else { 45_000.0 };
                5_000.0 + dice.log_normal(pause, 0.9)
            }
            Source::Agent => {
                prompt.append_own(
                    blocks,
                    dice.exponential(80.0) + dice.log_normal(400.0, 1.2).min(20_000.0),
                );
                2_000.0 + dice.log_normal(6_000.0, 1.0)
            }
            Source::Question { .. } => {
                prompt.append_own(blocks, dice.exponential(150.0) + dice.log_normal(60.0, 0.7));
                dice.log_normal(40_000.0, 0.8)
            }
            Source::Job => {
                self.read_record(blocks);
                dice.exponential(150.0)
            }
        })
    }

    /// Makes a new prompt of the job's next record.
    fn read_record(&mut self, blocks: &mut Blocks) {
        let (job, number) = self.record;
        self.record.1 += 1;
        self.prompt = Prompt::default();
        self.prompt.append_shared(blocks, Text::Tools(1_000 + job), 2);
        self.prompt.append_shared(blocks, Text::Record { job, number }, 8 + number * 7 % 17);
    }
}
