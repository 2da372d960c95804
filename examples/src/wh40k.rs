//! `wh40k.*`: three tools from the grim darkness of the far future.
//!
//! Arguments with defaults, an enum argument, structured results, and a tool that waits. A `seed`
//! makes random results reproducible.

use std::time::Duration;

use fastrand::Rng;
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};

/// All three tools.
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
    /// True to include title and ordo
    #[param(default = true)]
    include_title: bool,
    /// Seed for a reproducible name
    seed: Option<u64>,
) -> String {
    let mut random = random(seed);
    let name = format!("{} {}", pick(&mut random, &FIRST_NAMES), pick(&mut random, &LAST_NAMES));
    let ordo = pick(&mut random, &ORDOS);
    if include_title { format!("Inquisitor {name} of the Ordo {ordo}") } else { name }
}

/// Purpose of a roll
#[data]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Attacks hit on 3 or more
    #[default]
    Hit,
    /// Hits wound on 4 or more
    Wound,
    /// Armour saves on 3 or more
    Save,
}

/// Result of a roll
#[data]
#[derive(Debug)]
#[serde(rename_all = "camelCase")]
pub struct Roll {
    /// Each die, in order
    pub rolls: Vec<u32>,
    /// Sum
    pub total: u32,
    /// Number of successes
    pub successes: usize,
    /// Meaning on the battlefield
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
    /// Number of dice
    #[param(default = 1, range = 1..=100)]
    dice_count: u32,
    /// Sides of each die
    #[param(default = 6, range = 2..=100)]
    dice_sides: u32,
    /// Purpose of the roll
    #[param(default)]
    flavor: Purpose,
    /// Seed for reproducible dice
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

/// Result of a battle
#[data]
#[derive(Debug)]
#[serde(rename_all = "PascalCase")]
pub struct BattleResult {
    /// Imperial force
    pub imperial_force: String,
    /// Enemy force
    pub enemy_force: String,
    /// True if the Imperium won
    pub is_imperial_victory: bool,
    /// Report
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
    /// Imperial force; random if empty
    #[param(default = "", length = ..=200)]
    imperial_force: String,
    /// Enemy force; random if empty
    #[param(default = "", length = ..=200)]
    enemy_force: String,
    /// Seed for a reproducible battle
    seed: Option<u64>,
) -> BattleResult {
    // Many battles can run concurrently: waiting needs no thread.
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

    /// MCP-066: a seed makes the name reproducible.
    #[test]
    fn a_seed_reproduces_the_name() {
        assert!(!inquisitor_name(true, None).is_empty());
        assert_eq!(inquisitor_name(true, Some(40_000)), inquisitor_name(true, Some(40_000)));
        assert!(!inquisitor_name(false, Some(1)).contains("Inquisitor"));
    }

    /// MCP-067: the requested number of dice, each within its sides.
    #[test]
    fn dice_stay_within_their_sides() {
        for (count, sides) in [(1, 6), (100, 2), (30, 20)] {
            let roll = roll_dice(count, sides, Purpose::Wound, None);
            assert_eq!(roll.rolls.len(), count as usize);
            assert!(roll.rolls.iter().all(|die| (1..=sides).contains(die)));
            assert_eq!(roll.total, roll.rolls.iter().sum::<u32>());
            assert_eq!(roll.successes, roll.rolls.iter().filter(|die| **die >= 4).count());
        }
    }

    /// MCP-068: two concurrent battles take as long as one, and the report names both forces.
    #[tokio::test(start_paused = true)]
    async fn battles_run_concurrently() {
        let start = tokio::time::Instant::now();
        let battle = || battle_simulation("Guard".into(), String::new(), Some(7));
        let (first, second) = tokio::join!(battle(), battle());
        assert_eq!(start.elapsed().as_millis(), 500);
        assert_eq!(first.battle_report, second.battle_report);
        assert!(first.battle_report.contains("Guard"));
        assert!(first.battle_report.contains(&first.enemy_force));
    }
}
