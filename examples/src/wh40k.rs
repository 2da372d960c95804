//! `wh40k.*`: three tools from the grim darkness of the far future.
//!
//! Arguments with defaults, an argument that is one of a few words, results that programs can
//! read, and a tool that waits. A `seed` makes what is random repeat.

use std::time::Duration;

use fastrand::Rng;
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};

/// All three.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![inquisitor_name, roll_dice, battle_simulation].into_tools()
}

/// Generate a name for a Warhammer 40k Inquisitor
#[tool(
    name = "wh40k.inquisitor_name",
    category = "wh40k",
    rename_all = "camelCase",
    quick,
    read_only,
    open_world = false
)]
pub fn inquisitor_name(
    /// Whether to say the title and the ordo, too
    #[param(default = true)]
    include_title: bool,
    /// Gives the same name every time
    seed: Option<u64>,
) -> String {
    let mut random = random(seed);
    let name = format!("{} {}", pick(&mut random, &FIRST_NAMES), pick(&mut random, &LAST_NAMES));
    let ordo = pick(&mut random, &ORDOS);
    if include_title { format!("Inquisitor {name} of the Ordo {ordo}") } else { name }
}

/// What a roll of dice is for
#[data]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Whether attacks hit: 3 or more
    #[default]
    Hit,
    /// Whether hits wound: 4 or more
    Wound,
    /// Whether armour holds: 3 or more
    Save,
}

/// How a roll of dice came out
#[data]
#[derive(Debug)]
#[serde(rename_all = "camelCase")]
pub struct Roll {
    /// Each die, in the order they fell
    pub rolls: Vec<u32>,
    /// Their sum
    pub total: u32,
    /// How many did what they were rolled for
    pub successes: usize,
    /// What it means on the battlefield
    pub flavor_text: String,
}

/// Roll dice with Warhammer 40k flavor
#[tool(
    name = "wh40k.roll_dice",
    category = "wh40k",
    rename_all = "camelCase",
    quick,
    read_only,
    open_world = false
)]
pub fn roll_dice(
    /// How many dice to roll
    #[param(default = 1, range = 1..=100)]
    dice_count: u32,
    /// How many sides each of them has
    #[param(default = 6, range = 2..=100)]
    dice_sides: u32,
    /// What they are rolled for
    #[param(default)]
    flavor: Purpose,
    /// Gives the same dice every time
    seed: Option<u64>,
) -> Roll {
    let mut random = random(seed);
    let rolls: Vec<u32> = (0..dice_count).map(|_| random.u32(1..=dice_sides)).collect();
    let needed = if flavor == Purpose::Wound { 4 } else { 3 };
    let successes = rolls.iter().filter(|roll| **roll >= needed).count();
    let flavor_text = match flavor {
        Purpose::Hit => format!("{successes} of {dice_count} bolts find their mark."),
        Purpose::Wound => format!("{successes} of {dice_count} hits draw blood."),
        Purpose::Save => format!("The Emperor protects {successes} of {dice_count}."),
    };
    Roll { total: rolls.iter().sum(), rolls, successes, flavor_text }
}

/// How a battle ended
#[data]
#[derive(Debug)]
#[serde(rename_all = "PascalCase")]
pub struct BattleResult {
    /// Who fought for the Imperium
    pub imperial_force: String,
    /// Whom they fought
    pub enemy_force: String,
    /// Whether the Imperium won
    pub is_imperial_victory: bool,
    /// What happened
    pub battle_report: String,
}

/// Simulate a battle in the Warhammer 40k universe
#[tool(
    name = "wh40k.battle_simulation",
    category = "wh40k",
    rename_all = "camelCase",
    read_only,
    open_world = false
)]
pub async fn battle_simulation(
    /// Imperial force; one is chosen if this is empty
    #[param(default = "", length = ..=200)]
    imperial_force: String,
    /// Enemy force; one is chosen if this is empty
    #[param(default = "", length = ..=200)]
    enemy_force: String,
    /// Gives the same battle every time
    seed: Option<u64>,
) -> BattleResult {
    // Many battles can be fought at the same time: waiting costs no thread.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut random = random(seed);
    let imperial_force = given_or(imperial_force, &mut random, &IMPERIAL_FORCES);
    let enemy_force = given_or(enemy_force, &mut random, &ENEMY_FORCES);
    let battlefield = pick(&mut random, &BATTLEFIELDS);
    let is_imperial_victory = random.bool();
    let battle_report = if is_imperial_victory {
        format!("The {imperial_force} defeated the {enemy_force} {battlefield}.")
    } else {
        format!("The {imperial_force} fell to the {enemy_force} {battlefield}.")
    };
    BattleResult { imperial_force, enemy_force, is_imperial_victory, battle_report }
}

fn given_or(given: String, random: &mut Rng, others: &[&str]) -> String {
    let other = pick(random, others);
    if given.is_empty() { other.to_owned() } else { given }
}

fn random(seed: Option<u64>) -> Rng {
    seed.map_or_else(Rng::new, Rng::with_seed)
}

fn pick<'a>(random: &mut Rng, words: &[&'a str]) -> &'a str {
    words[random.usize(..words.len())]
}

const FIRST_NAMES: [&str; 8] =
    ["Aurelia", "Cassian", "Drusilla", "Hektor", "Livia", "Marius", "Octavia", "Severus"];
const LAST_NAMES: [&str; 8] =
    ["Ashgrave", "Corvane", "Dolmar", "Ferrant", "Hollow", "Marrow", "Sorrel", "Vance"];
const ORDOS: [&str; 3] = ["Hereticus", "Malleus", "Xenos"];
const IMPERIAL_FORCES: [&str; 3] = ["Astra Militarum", "Adepta Sororitas", "Adeptus Mechanicus"];
const ENEMY_FORCES: [&str; 4] = ["Orks", "Necrons", "Tyranids", "Heretics"];
const BATTLEFIELDS: [&str; 4] = [
    "in the depths of a hive city",
    "on the plains of a forge world",
    "aboard a drifting hulk",
    "under the eyes of a dying sun",
];

#[cfg(test)]
mod tests {
    use super::{Purpose, battle_simulation, inquisitor_name, roll_dice};

    /// MCP-066: a name that repeats with its seed.
    #[test]
    fn a_seeded_name_repeats() {
        assert!(!inquisitor_name(true, None).is_empty());
        assert_eq!(inquisitor_name(true, Some(40_000)), inquisitor_name(true, Some(40_000)));
        assert!(!inquisitor_name(false, Some(1)).contains("Inquisitor"));
    }

    /// MCP-067: as many dice as asked for, each within its sides.
    #[test]
    fn dice_fall_within_their_sides() {
        for (count, sides) in [(1, 6), (100, 2), (30, 20)] {
            let roll = roll_dice(count, sides, Purpose::Wound, None);
            assert_eq!(roll.rolls.len(), count as usize);
            assert!(roll.rolls.iter().all(|die| (1..=sides).contains(die)));
            assert_eq!(roll.total, roll.rolls.iter().sum::<u32>());
            assert_eq!(roll.successes, roll.rolls.iter().filter(|die| **die >= 4).count());
        }
    }

    /// MCP-068: two battles at once take as long as one, and the report names both forces.
    #[tokio::test(start_paused = true)]
    async fn battles_are_fought_at_the_same_time() {
        let start = tokio::time::Instant::now();
        let battle = || battle_simulation("Guard".into(), String::new(), Some(7));
        let (first, second) = tokio::join!(battle(), battle());
        assert_eq!(start.elapsed().as_millis(), 500);
        assert_eq!(first.battle_report, second.battle_report);
        assert!(first.battle_report.contains("Guard"));
        assert!(first.battle_report.contains(&first.enemy_force));
    }
}
