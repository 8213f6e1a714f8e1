use quipu_cluster::limits::Limits;
use quipu_cluster::simulation::plan::Plan;
use quipu_cluster::simulation::world::World;
use quipu_cluster::tables::Table;
#[test]
fn debug() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let plan = Plan::draw(seed);
    let mut world = World::new(plan, Limits::tiny());
    world.run();
    println!("{:?}", world.failure);
    for (n, s) in world.up() {
        let node = s.node.as_ref().unwrap();
        println!(
            "{n} {:?} {:?}\n   hints {:?}\n {:?}",
            s.id,
            node.health_of_all(),
            s.tables.rows(Table::Hints),
            node.metrics
        );
    }
}
#[test]
fn follow() {
    use quipu_cluster::record::Record;
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let plan = Plan::draw(seed);
    let mut world = World::new(plan, Limits::tiny());
    world.run();
    let row: Vec<u8> = vec![0, 0, 3, 107, 2];
    for t in 0..60 {
        world.run_until(world.now_us + 20_000);
        if t % 50 == 0 {
            for s in [0, 1, 2] {
                let s = &mut world;
                let _ = s;
            }
        }
        let mut line = String::new();
        for (n, s) in world.up() {
            for t in [Table::Entities, Table::Graves] {
                for class in 1..=3u8 {
                    let mut r = row.clone();
                    r[2] = class;
                    if let Some(v) = s.tables.rows(t).get(&r) {
                        line += &format!(
                            "{n}/{class}: {:?} ",
                            Record::decode(v)
                                .map(|r| (r.version, matches!(r.state, quipu_cluster::record::State::Live { .. })))
                        );
                    }
                }
            }
        }
        println!("{} {line}", world.now_us / 1000);
        if t == 5 {
            world.repair(2);
        }
    }
}
