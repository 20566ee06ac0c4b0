-- name: aged_unclaimed
-- A page of claimable orders from a key on, with the seconds for which nothing stood in their way, and whether that was
-- told. It moved last with its last history row; what was due later, or freed from a hold later, waits since then.
select o.no, o.client as key, o.rank, o.attempt, o.history,
       extract(epoch from clock_timestamp() - greatest(t.at, o.not_before))::float8 as waits,
       coalesce(a.attempt = o.attempt, false) as told
from (select no, client, rank, attempt, history, not_before from orders
      where held_by is null and locked_by is null and state in ('pending', 'compensating')
        and (client, rank, no) > (:key::text, :rank::bigint, :no::bigint)
      order by client, rank, no limit :most::int) o
left join transitions t on t.no = o.no and t.n = o.history
left join aged_orders a on a.no = o.no and a.kind = 'unclaimed'
order by o.client, o.rank, o.no;

-- name: aged_held
-- The same of held orders, but for those that an operator paused; they wait since they were held.
select o.no, o.held_by as key, o.rank, o.attempt, o.history,
       extract(epoch from clock_timestamp() - coalesce(o.held_at, t.at))::float8 as waits, coalesce(a.attempt = o.attempt, false) as told
from (select no, held_by, rank, attempt, history, held_at from orders
      where held_by is not null and held_by not like 'pause:%' and (held_by, rank, no) > (:key::text, :rank::bigint, :no::bigint)
      order by held_by, rank, no limit :most::int) o
left join transitions t on t.no = o.no and t.n = o.history
left join aged_orders a on a.no = o.no and a.kind = 'held'
order by o.held_by, o.rank, o.no;

-- name: lock_aged
-- Locks those that did not move since they were read.
select o.no from unnest(:nos::bigint[], :histories::int[]) as u(no, history)
join orders o on o.no = u.no and o.history = u.history and o.locked_by is null
where case :kind::text when 'held' then o.held_by is not null
                       else o.held_by is null and o.state in ('pending', 'compensating') end
order by o.no for no key update of o skip locked;

-- name: mark_aged
-- Told now. What was told for this attempt before is missing in what it returns.
insert into aged_orders as a (no, kind, attempt)
select o.no, :kind::text, o.attempt from orders o where o.no = any(:nos::bigint[]) order by o.no
on conflict (no, kind) do update set attempt = excluded.attempt, at = excluded.at
where a.attempt <> excluded.attempt
returning no;
