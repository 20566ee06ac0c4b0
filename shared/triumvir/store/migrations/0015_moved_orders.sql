-- Why: a few orders are decided on without being locked first. Their one write is a transaction of its own, and must
-- leave nothing behind, not even the rows of their neighbours, if one of them moved since it was read.

create function all_moved(wanted bigint, moved bigint) returns bigint language plpgsql immutable as $$
begin
    if moved <> wanted then
        raise exception '% of % orders moved since they were read', wanted - moved, wanted
            using errcode = 'serialization_failure', hint = 'read them again';
    end if;
    return moved;
end $$;
